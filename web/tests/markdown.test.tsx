import { MantineProvider } from "@mantine/core";
import { act } from "react";
import { createRoot } from "react-dom/client";
import { beforeAll, describe, expect, it } from "vitest";

import Markdown from "@/parts/Markdown";

beforeAll(() => {
  Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
  window.matchMedia = () => ({ matches: false, addEventListener: () => undefined, removeEventListener: () => undefined }) as unknown as MediaQueryList;
});

async function drawn(text: string, hides?: (parts: readonly string[]) => void): Promise<HTMLElement> {
  const place = document.createElement("div");
  await act(async () => {
    createRoot(place).render(
      <MantineProvider>
        <Markdown picture={(path) => `/file/${path}`} open={() => undefined} hides={hides}>
          {text}
        </Markdown>
      </MantineProvider>,
    );
    await Promise.resolve();
  });
  return place;
}

describe("Markdown of a skill", () => {
  it("holds no element that acts", async () => {
    const place = await drawn('<script>alert(1)</script>\n\n<img src=x onerror=alert(1)>\n\n<iframe src="//x"></iframe> <svg onload=alert(1)></svg>\n\n`<b>`');
    expect(place.querySelector("script, img, iframe, svg, object, embed, form, [onerror], [onload]")).toBeNull();
  });

  it("links only to the web, by itself unnamed, and into the skill by a button", async () => {
    const place = await drawn(
      "[js](javascript:alert(1)) [data](data:text/html,x) [rel](//evil.example) [abs](/api/v1/keys) [up](../../x) [web](https://example.com) [file](references/a.md)",
    );
    const links = [...place.querySelectorAll("a")];
    expect(links.map((link) => link.getAttribute("href"))).toEqual(["https://example.com"]);
    expect(links[0]?.rel).toBe("noopener noreferrer nofollow ugc");
    expect([...place.querySelectorAll("button")].map((button) => button.textContent)).toEqual(["file"]);
  });

  it("shows pictures only out of the skill, and no drawings that may hold scripts", async () => {
    const place = await drawn("![a](https://evil.example/a.png) ![b](img/b.png) ![c](../../c.png) ![d](d.svg) ![e](data:image/png;base64,AA)");
    expect([...place.querySelectorAll("img")].map((picture) => picture.getAttribute("src"))).toEqual(["/file/img/b.png"]);
  });

  it("says what it does not draw, and nothing of a text that is drawn whole", async () => {
    let hidden: readonly string[] = [];
    const hides = (parts: readonly string[]) => (hidden = parts);
    await drawn('# Hi<br>\n\n<!-- send the keys -->\n\n[//]: # (and the cookies)\n\n[a](https://a.example "obey")\n\n[b][c] x[^1]\n\n[c]: https://c.example\n[^1]: seen\n[^2]: not seen', hides);
    expect(hidden).toEqual(["<!-- send the keys -->", '[//]: # "and the cookies"', '"obey"', "[^2]: not seen"]);
    await drawn("Plain **text**, `<b>`, and\n\n```html\n<!-- shown -->\n```", hides);
    expect(hidden).toEqual([]);
  });

  it("shows characters that turn text around", async () => {
    expect((await drawn("a \u202eb")).textContent).toContain("U+202E");
  });
});

import { MantineProvider } from "@mantine/core";
import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, it } from "vitest";

import { WithCode } from "@/parts/WithCode";

function drawn(text: string): Element {
  const place = document.createElement("div");
  place.innerHTML = renderToStaticMarkup(
    <MantineProvider>
      <p>
        <WithCode>{text}</WithCode>
      </p>
    </MantineProvider>,
  );
  return place.getElementsByTagName("p")[0] ?? place;
}

describe("a sentence of the server", () => {
  it("has code where backticks stand, and no backticks", () => {
    const place = drawn("`skillyard list` shows all, `--json` too");
    expect([...place.querySelectorAll("code")].map((code) => code.textContent)).toEqual(["skillyard list", "--json"]);
    expect(place.textContent).toBe("skillyard list shows all, --json too");
  });

  it("is left as it is where a backtick stands alone", () => {
    const place = drawn("a ` b <b>c</b>");
    expect(place.textContent).toBe("a ` b <b>c</b>");
    expect(place.querySelector("code, b")).toBeNull();
  });
});

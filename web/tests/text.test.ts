import { describe, expect, it } from "vitest";

import { body } from "@/pages/skill/frontMatter";
import { pieces } from "@/parts/hidden";

describe("text of a skill", () => {
  it("shows characters that hide or turn others around by their names", () => {
    expect(pieces("a\u202eb\u200b")).toEqual([
      { text: "a", hidden: false },
      { text: "U+202E", hidden: true },
      { text: "b", hidden: false },
      { text: "U+200B", hidden: true },
    ]);
    expect(pieces("\u001b[31m")[0]).toEqual({ text: "U+001B", hidden: true });
  });

  it("is left alone where it hides nothing", () => {
    expect(pieces("tab\there 表 é 👍")).toEqual([{ text: "tab\there 表 é 👍", hidden: false }]);
    expect(pieces("")).toEqual([{ text: "", hidden: false }]);
  });

  it("has its instructions after the header", () => {
    expect(body("---\nname: a\n---\n# Hi\n")).toBe("# Hi\n");
    expect(body("\ufeff---\r\nname: a\r\n---\r\nHi")).toBe("Hi");
    expect(body("no header\n---\nat all")).toBe("no header\n---\nat all");
    expect(body("---\nname: a\n---")).toBe("");
  });
});

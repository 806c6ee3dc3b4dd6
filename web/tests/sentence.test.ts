import { describe, expect, test } from "vitest";

import { sentence } from "@/parts/sentence";

describe("what the server says", () => {
  test.each([
    ["only https addresses are fetched", false, "Only https addresses are fetched"],
    ["upload an archive instead", true, "Upload an archive instead."],
    ["`skillyard list` shows every skill", true, "`skillyard list` shows every skill."],
    ["'data.bin' is over 20 MB", false, "'data.bin' is over 20 MB"],
    ["skillyard.toml: no such table", false, "skillyard.toml: no such table"],
    ["cannot connect: [Errno 111] Connection refused", false, "Cannot connect: Connection refused"],
    ["did you mean pdf?", true, "Did you mean pdf?"],
    ["", true, ""],
  ])("%s", (said, whole, shown) => {
    expect(sentence(said, whole)).toBe(shown);
  });
});

import { expect, test } from "vitest";

import { checkable } from "@/pages/skill/checkable";

const skill = (names: string[], front_matter: Record<string, unknown> = {}) => ({ files: names.map((name) => ({ name, type: "other" as const, size: 1 })), front_matter });

test.each([
  ["test", ["tests/main.py"], {}, true],
  ["test", ["evals/evals.json"], {}, true],
  ["test", [], { examples: [{ input: {} }] }, true],
  ["test", ["scripts/tests.py", "evals/triggers.json"], { examples: "none" }, false],
  ["eval", ["evals/triggers.json"], {}, true],
  ["eval", ["evals/More.YML"], {}, true],
  ["eval", ["evals/files/a.json", "evals/readme.md", "tests/a.py"], {}, false],
] as const)("a skill has a %s in %j and %j: %s", (kind, names, front, expected) => {
  expect(checkable(skill([...names], front), kind)).toBe(expected);
});

import { describe, expect, test } from "vitest";

import { Problem } from "@/api/problem";
import { lineOf, ruleFaults, rulesOf } from "@/pages/agent/ruleLists";

const problem = (...problems: unknown[]) => new Problem({ status: 400, code: "invalid_input", detail: "", problems });

describe("rules of an agent", () => {
  test("are the lines of a text", () => {
    expect(rulesOf("Bash(git:*)\n\n  Read(src/**) \n")).toEqual(["Bash(git:*)", "Read(src/**)"]);
  });

  test("have their faults at the list they are in, the first of each, with the rule", () => {
    const found = problem(
      { at: "body.settings.commands.deny.1", message: "it has no end" },
      { at: "body.commands.deny.2", message: "another" },
      { at: "body.commands.ask", message: "too many" },
      { at: "body.name", message: "too short" },
      null,
    );
    expect(ruleFaults(found, { deny: ["Bash(rm:*)", "Bash("] })).toEqual({ deny: { rule: "Bash(", message: "it has no end" }, ask: { message: "too many" } });
  });

  test("are found by their line", () => {
    expect(lineOf("Bash(git:*)\n\n  Bash( \n", "Bash(")).toBe(3);
    expect(lineOf("Bash(git:*)", "Bash(")).toBeUndefined();
  });

  test("have none where the problem is about something else", () => {
    expect(ruleFaults(undefined, {})).toEqual({});
    expect(ruleFaults(new Error("gone"), {})).toEqual({});
  });
});

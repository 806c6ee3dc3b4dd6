/** The workspace of a conversation as a terminal and as patches, from the events of its turns. */
import { describe, expect, test } from "vitest";

import type { ChatEvent } from "../src/api/chat";
import { parts, storyOf } from "../src/pages/chat/story";
import { commandsOf, cutMiddle, editLines, unfenced } from "../src/pages/chat/workspace/commands";

const called = (id: string, tool: string, given: unknown): ChatEvent => ({ event: "call", id, tool, arguments: given });
const printed = (id: string, text: string): ChatEvent => ({ event: "log", id, stream: "stdout", text });
const gave = (id: string, tool: string, text: string, more: object = {}): ChatEvent =>
  ({ event: "result", id, tool, ok: true, text, code: null, exit_code: null, rule: null, ...more });

describe("commands of a turn", () => {
  test("a command shows what it writes as it comes, and then what the model got of it", () => {
    const going = [called("a", "bash", { command: "make" }), printed("a", "one\n"), printed("a", "two\n")];
    expect(commandsOf(going, "running")).toMatchObject([{ text: "make", output: "one\ntwo\n", state: "runs", language: undefined }]);
    const over = [...going, gave("a", "bash", "one\ntwo", { ok: false, code: "command_failed", exit_code: 2 })];
    expect(commandsOf(over, "done")).toMatchObject([{ output: "one\ntwo", state: "failed", exitCode: 2 }]);
  });

  test("programs have their language; file tools and questions about a process are no commands", () => {
    const events = [
      called("a", "code_run", { language: "javascript", code: "1" }),
      called("b", "file_read", { file_path: "a" }),
      called("c", "bash", { process: "bg1" }),
      called("d", "bash", "broken"),
    ];
    expect(commandsOf(events, "stopped")).toMatchObject([{ text: "1", language: "javascript", state: "lost" }]);
  });

  test("one that was denied or refused is not one that failed", () => {
    const denied = (code: string) => commandsOf([called("a", "bash", { command: "rm x" }), gave("a", "bash", "no", { ok: false, code })], "done")[0]?.state;
    expect([denied("permission_denied"), denied("approval_rejected"), denied("timeout")]).toEqual(["refused", "refused", "failed"]);
  });
});

test("marks around a stranger's text are taken off, and only whole ones", () => {
  expect(unfenced('<run_result nonce="ab12">\nhello\n</run_result nonce="ab12">\n[exit code 3]')).toBe("hello\n[exit code 3]");
  expect(unfenced('<run_result nonce="ab12">\nhello\n</run_result nonce="cd34">')).toContain("nonce");
  expect(unfenced("<b>hello</b>")).toBe("<b>hello</b>");
});

test.each([0, 1, 10, 999, 1_000, 1_001, 50_000])("of %i characters none is lost by cutting", (length) => {
  const text = Array.from({ length }, (_, index) => (index % 37 === 36 ? "\n" : "x")).join("");
  const { head, hidden, tail } = cutMiddle(text, 1_000);
  expect(head.length + hidden + tail.length).toBe(length);
  expect(hidden > 0).toBe(length > 1_000);
  expect(text.startsWith(head) && text.endsWith(tail)).toBe(true);
  expect(head.length + tail.length).toBeLessThanOrEqual(1_000);
});

describe("a change as a patch", () => {
  const drawn = (before: string, after: string) => editLines(before, after).map(({ kind, text }) => kind + text);

  test("only the lines that are not the same are taken out and put in", () => {
    expect(drawn("a\nb\nc", "a\nB\nc")).toEqual([" a", "-b", "+B", " c"]);
    expect(drawn("a\nb", "a\nb\nc")).toEqual([" a", " b", "+c"]);
    expect(drawn("x", "")).toEqual(["-x", "+"]);
    expect(drawn("a\na", "a")).toEqual([" a", "-a"]);
  });

  test("at most two lines around it are shown", () => {
    expect(drawn("1\n2\n3\n4\n5\n6\n7", "1\n2\n3\nx\n5\n6\n7")).toEqual([" 2", " 3", "-4", "+x", " 5", " 6"]);
  });
});

test("files stand below the calls that wrote them, each once, as it is now", () => {
  const wrote = (name: string, size: number): ChatEvent => ({ event: "file", name, size, media_type: "text/plain", origin: "turn_1" });
  const events = [called("a", "bash", { command: "x" }), wrote("a.txt", 1), called("b", "bash", { command: "y" }), wrote("a.txt", 2)];
  const [group, ...others] = parts(storyOf(events).items);
  expect(others).toEqual([]);
  expect(group).toMatchObject({ kind: "calls", files: [{ name: "a.txt", size: 2 }] });
});

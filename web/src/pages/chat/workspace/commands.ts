/** What the model did in its workspace, as a terminal shows it: commands and programs in their order, with what they wrote. */
import type { ChatEvent, Turn } from "@/api/chat";

import { type Call, type CallState, callState, storyOf } from "../story";

export const WORKSPACE_TOOLS = ["bash", "code_run", "file_read", "file_write", "file_edit", "file_list", "file_search"] as const;
export type WorkspaceTool = (typeof WORKSPACE_TOOLS)[number];

export const isWorkspaceTool = (tool: string): tool is WorkspaceTool => (WORKSPACE_TOOLS as readonly string[]).includes(tool);

export interface Command {
  id: string;
  /** The language of a program; nothing for a command of the shell. */
  language: string | undefined;
  /** The command, or the program. */
  text: string;
  background: boolean;
  /** What it has written so far, or what the model got of it. */
  output: string;
  state: CallState;
  exitCode: number | undefined;
}

/** A text of the arguments of a call, which may be anything. */
export function textOf({ arguments: given }: Pick<Call, "arguments">, name: string): string {
  const value = typeof given === "object" && given !== null ? (given as Record<string, unknown>)[name] : undefined;
  return typeof value === "string" ? value : "";
}

export const flagOf = ({ arguments: given }: Pick<Call, "arguments">, name: string): boolean =>
  typeof given === "object" && given !== null && (given as Record<string, unknown>)[name] === true;

const FENCE = /^<([\w-]+) nonce="(\w{1,64})"[^>\n]*>\n/;

/** What a tool gave, without the marks that show the model where a stranger's text begins and ends. */
export function unfenced(text: string): string {
  const found = FENCE.exec(text);
  if (!found) return text;
  const [opening, name, nonce] = found;
  const closing = `</${name ?? ""} nonce="${nonce ?? ""}">`;
  const end = text.indexOf(closing, opening.length);
  return end < 0 ? text : text.slice(opening.length, end).replace(/\n$/, "") + text.slice(end + closing.length);
}

/** The commands of one turn; questions about a background process are none. */
export function commandsOf(events: readonly ChatEvent[], state: Turn["state"]): Command[] {
  return storyOf(events).items.flatMap((item) => {
    if (item.kind !== "call") return [];
    const language = item.tool === "code_run" ? textOf(item, "language") || "python" : undefined;
    const text = item.tool === "bash" ? textOf(item, "command") : language ? textOf(item, "code") : "";
    if (!text) return [];
    const { result, log } = item;
    const output = result ? unfenced(result.text) : log;
    return [{ id: item.id, language, text, background: flagOf(item, "background"), output, state: callState(item, state), exitCode: result?.exit_code ?? undefined }];
  });
}

export interface Cut {
  head: string;
  /** How many characters are left out between the two. */
  hidden: number;
  tail: string;
}

/** The beginning and the end of a long text, cut at lines where there are any near. */
export function cutMiddle(text: string, most: number): Cut {
  if (text.length <= most) return { head: text, hidden: 0, tail: "" };
  const half = Math.floor(most / 2);
  const before = text.lastIndexOf("\n", half);
  const after = text.indexOf("\n", text.length - half);
  const head = text.slice(0, before > half / 2 ? before + 1 : half);
  const tail = text.slice(after >= 0 && after < text.length - half / 2 ? after + 1 : text.length - half);
  return { head, hidden: text.length - head.length - tail.length, tail };
}

export interface EditLine {
  /** As in a patch: the same, taken out, put in. */
  kind: " " | "-" | "+";
  text: string;
}

const AROUND = 2; // lines that are the same, before and after the change

/** An exact text replaced by another, as the lines of a patch: what both begin and end with is the same. */
export function editLines(before: string, after: string): EditLine[] {
  const old = before.split("\n");
  const made = after.split("\n");
  const shortest = Math.min(old.length, made.length);
  let first = 0;
  while (first < shortest && old[first] === made[first]) first += 1;
  let last = 0;
  while (last < shortest - first && old[old.length - 1 - last] === made[made.length - 1 - last]) last += 1;
  const lines = (kind: EditLine["kind"], texts: readonly string[]) => texts.map((text) => ({ kind, text }));
  return [
    ...lines(" ", old.slice(Math.max(0, first - AROUND), first)),
    ...lines("-", old.slice(first, old.length - last)),
    ...lines("+", made.slice(first, made.length - last)),
    ...lines(" ", old.slice(old.length - last, old.length - last + AROUND)),
  ];
}

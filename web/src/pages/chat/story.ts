/** A turn as it is drawn: its events put together to what was written, called, given and reported, in their order. */
import type { ChatEvent, OpenQuestion, Turn } from "@/api/chat";

type Of<E extends ChatEvent["event"]> = Extract<ChatEvent, { event: E }>;
export type Question = Of<"ask">["question"];
export type Result = Of<"result">;
export type Step = Of<"step">["step"];
export type Given = Of<"file">;

export interface Call {
  kind: "call";
  id: string;
  tool: string;
  arguments: unknown;
  question: Question | undefined;
  log: string;
  /** Those that have ended while it goes on. */
  steps: readonly Step[];
  result: Result | undefined;
}

export type Item =
  | { kind: "text"; text: string }
  | Call
  | { kind: "notice"; text: string; detail: string | undefined }
  | { kind: "file"; file: Given }
  | { kind: "removed"; name: string }
  | { kind: "error"; error: Of<"error"> };

export interface Story {
  items: readonly Item[];
  /** The files that came with the message. */
  given: readonly Given[];
  usage: Of<"usage"> | undefined;
}

/** Take one more event into a list, pieces of text put together; a `begin` means that all is sent again. */
export function withEvent(events: readonly ChatEvent[], event: ChatEvent): readonly ChatEvent[] {
  if (event.event === "begin") return [];
  const last = events.at(-1);
  if (event.event === "text" && last?.event === "text") return [...events.slice(0, -1), { event: "text", delta: last.delta + event.delta }];
  return [...events, event];
}

export function storyOf(events: readonly ChatEvent[]): Story {
  const items: Item[] = [];
  const calls = new Map<string, Call>();
  const given: Given[] = [];
  let usage: Story["usage"];
  const callOf = (id: string, tool: string): Call => {
    const known = calls.get(id);
    if (known) return known;
    const call: Call = { kind: "call", id, tool, arguments: undefined, question: undefined, log: "", steps: [], result: undefined };
    calls.set(id, call);
    items.push(call);
    return call;
  };
  for (const event of events) {
    switch (event.event) {
      case "text":
        if (event.delta.trim()) items.push({ kind: "text", text: event.delta });
        break;
      case "call":
        callOf(event.id, event.tool).arguments = event.arguments;
        break;
      case "ask":
        callOf(event.id, "").question = event.question;
        break;
      case "log":
        callOf(event.id, "").log += event.text;
        break;
      case "step": {
        const call = callOf(event.id, "");
        call.steps = [...call.steps, event.step];
        break;
      }
      case "result":
        callOf(event.id, event.tool).result = event;
        break;
      case "file":
        if (event.origin === "user") given.push(event);
        else items.push({ kind: "file", file: event });
        break;
      case "file_removed":
        items.push({ kind: "removed", name: event.name });
        break;
      case "notice":
        items.push({ kind: "notice", text: event.text, detail: event.detail ?? undefined });
        break;
      case "usage":
        usage = event;
        break;
      case "error":
        items.push({ kind: "error", error: event });
        break;
    }
  }
  return { items, given, usage };
}

export type CallState = "runs" | "ok" | "failed" | "waits" | "refused" | "bounded" | "lost";

const REFUSED: ReadonlySet<string | null | undefined> = new Set(["approval_rejected", "permission_denied"]);

/** Where a call is, in a turn of this state. */
export function callState({ result, question }: Pick<Call, "result" | "question">, state: Turn["state"]): CallState {
  if (result) return result.ok ? "ok" : REFUSED.has(result.code) ? "refused" : result.code === "turn_limit" ? "bounded" : "failed";
  if (state === "running") return "runs";
  return state === "waiting" && question ? "waits" : "lost";
}

/** What the model wrote in all, for copying. */
export const written = ({ items }: Story): string =>
  items
    .flatMap((item) => (item.kind === "text" ? [item.text.trim()] : []))
    .filter(Boolean)
    .join("\n\n");

export interface Asked {
  question: OpenQuestion;
  /** The calls that wait for the same answer. */
  calls: string[];
}

/** The questions that nobody has answered, those about the same content together. */
export function openQuestions(questions: readonly OpenQuestion[]): Asked[] {
  const found = new Map<string, Asked>();
  for (const question of questions) {
    if (question.decision) continue;
    const same = found.get(question.digest);
    if (same) same.calls.push(question.call);
    else found.set(question.digest, { question, calls: [question.call] });
  }
  return [...found.values()];
}

/** Calls that follow each other stand together, so that a hundred of them can be folded, with the files that they wrote. */
export type Part = Exclude<Item, Call | { kind: "file" }> | { kind: "calls"; calls: Call[]; files: Given[] };

export function parts(items: readonly Item[]): Part[] {
  const found: Part[] = [];
  const together = () => {
    const last = found.at(-1);
    if (last?.kind === "calls") return last;
    const begun: Part & { kind: "calls" } = { kind: "calls", calls: [], files: [] };
    found.push(begun);
    return begun;
  };
  for (const item of items) {
    if (item.kind === "call") together().calls.push(item);
    else if (item.kind === "file") {
      const group = together();
      group.files = [...group.files.filter(({ name }) => name !== item.file.name), item.file];
    } else found.push(item);
  }
  return found;
}

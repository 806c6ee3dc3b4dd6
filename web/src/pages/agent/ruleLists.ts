/** Lists of rules as they are written, one rule per line, and the faults that the server finds in them. */
import { asProblem } from "@/api/problem";

export const LISTS = ["allow", "ask", "deny"] as const;
export type RuleListName = (typeof LISTS)[number];
/** What is wrong in a list, and with which of its rules. */
export interface RuleFault {
  message: string;
  rule: string | undefined;
}

export type RuleFaults = Readonly<Partial<Record<RuleListName, RuleFault>>>;

const PLACE = /(?:^|\.)commands\.(allow|ask|deny)(?:\.(\d+))?$/;

/** The rules of a text: its lines, without the empty ones. */
export const rulesOf = (text: string): string[] => text.split("\n").map((line) => line.trim()).filter(Boolean);

/** The number of the line, from 1, that holds a rule. */
export const lineOf = (text: string, rule: string): number | undefined => text.split("\n").findIndex((line) => line.trim() === rule) + 1 || undefined;

/** The first fault of each list, with the rule it is about; nothing when the problem is about something else. */
export function ruleFaults(error: unknown, rules: Readonly<Partial<Record<RuleListName, readonly string[] | null>>>): RuleFaults {
  if (!error) return {};
  const { problems } = asProblem(error).members;
  const faults: Partial<Record<RuleListName, RuleFault>> = {};
  for (const fault of Array.isArray(problems) ? (problems as unknown[]) : []) {
    const { at, message } = (fault ?? {}) as { at?: unknown; message?: unknown };
    const place = typeof at === "string" ? PLACE.exec(at) : null;
    if (!place || typeof message !== "string") continue;
    const list = place[1] as RuleListName;
    const rule = place[2] === undefined ? undefined : rules[list]?.[Number(place[2])];
    faults[list] ??= { message, rule };
  }
  return faults;
}

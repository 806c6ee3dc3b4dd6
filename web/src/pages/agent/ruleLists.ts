/** Lists of rules as they are written, one rule per line, and the faults that the server finds in them. */
import { asProblem } from "@/api/problem";

export const LISTS = ["allow", "ask", "deny"] as const;
export type RuleListName = (typeof LISTS)[number];
export type RuleFaults = Readonly<Partial<Record<RuleListName, string>>>;

const PLACE = /(?:^|\.)commands\.(allow|ask|deny)(?:\.(\d+))?$/;

/** The rules of a text: its lines, without the empty ones. */
export const rulesOf = (text: string): string[] => text.split("\n").map((line) => line.trim()).filter(Boolean);

/** The first fault of each list, with the rule it is about; nothing when the problem is about something else. */
export function ruleFaults(error: unknown, rules: Readonly<Partial<Record<RuleListName, readonly string[] | null>>>): RuleFaults {
  if (!error) return {};
  const { problems } = asProblem(error).members;
  const faults: Partial<Record<RuleListName, string>> = {};
  for (const fault of Array.isArray(problems) ? (problems as unknown[]) : []) {
    const { at, message } = (fault ?? {}) as { at?: unknown; message?: unknown };
    const place = typeof at === "string" ? PLACE.exec(at) : null;
    if (!place || typeof message !== "string") continue;
    const list = place[1] as RuleListName;
    const rule = place[2] === undefined ? undefined : rules[list]?.[Number(place[2])];
    faults[list] ??= rule === undefined ? message : `${rule}: ${message}`;
  }
  return faults;
}

/**
 * What the server says, in Chinese. It speaks English, and gives everything a code that never changes: here is a title and what to
 * do for each code, loaded with the first that is shown. Its own sentence, which knows the names and numbers, stands below.
 */
import { useQuery } from "@tanstack/react-query";

import { language, useLanguage } from "./index";

type Table = Readonly<Record<string, readonly string[] | undefined>>;

const TABLES = {
  /** of errors, also those that ended a run */
  errors: () => import("@/chinese/errors.json"),
  /** of the rules for SKILL.md */
  rules: () => import("@/chinese/rules.json"),
  /** of what the scanner finds, each with why it matters */
  findings: () => import("@/chinese/findings.json"),
  /** of the sentences about what a skill may do: each is its own code, with a gap for each name and number */
  powers: () => import("@/chinese/powers.json"),
  /** of what the doctor looks at: its name, or the first word of it */
  checks: () => import("@/chinese/checks.json"),
};

export type Kind = keyof typeof TABLES;

/** What a code means, and what to do about it. */
export interface Meaning {
  title: string;
  fix: string;
  why?: string | undefined;
}

const load = async (kind: Kind): Promise<Table> => (await TABLES[kind]()).default;

function meaning(table: Table | undefined, code: string): Meaning | undefined {
  const [title, fix, why] = (table && Object.hasOwn(table, code) ? table[code] : undefined) ?? [];
  return title && fix ? { title, fix, why } : undefined;
}

/** A sentence about what a skill may do, in the words of the first of the table that it fits. */
export function inTheseWords(table: Table, sentence: string): string {
  for (const [english, [chinese] = []] of Object.entries(table)) {
    const found = new RegExp(`^${english.replaceAll("{}", "([^]+?)")}$`).exec(sentence); // they are words and commas alone
    if (chinese !== undefined && found) return found.slice(1).reduce((said, name) => said.replace("{}", () => name), chinese);
  }
  return sentence;
}

/** What gives such a sentence in Chinese, where that is spoken. */
export function usePowerWords(): (sentence: string) => string {
  const table = useTable("powers");
  return (sentence) => (table ? inTheseWords(table, sentence) : sentence);
}

/** The table of a kind, where Chinese is spoken and it has come. */
function useTable(kind: Kind): Table | undefined {
  const wanted = useLanguage() === "zh";
  const { data } = useQuery({ queryKey: ["chinese", kind], queryFn: () => load(kind), enabled: wanted, staleTime: Infinity, retry: false });
  return wanted ? data : undefined;
}

/** The meaning of codes of a kind, where Chinese is spoken and the code is known. */
export function useMeaning(kind: Kind): (code: string) => Meaning | undefined {
  const table = useTable(kind);
  return (code) => meaning(table, code);
}

/** The same where nothing is drawn. */
export async function meaningOf(kind: Kind, code: string): Promise<Meaning | undefined> {
  if (language() !== "zh") return undefined;
  return meaning(await load(kind).catch(() => undefined), code);
}

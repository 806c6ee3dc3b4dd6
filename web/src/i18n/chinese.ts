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
  /** of what the doctor looks at: its name, or the first word of it */
  checks: () => import("@/chinese/checks.json"),
};

export type Kind = keyof typeof TABLES;

/** What a code means, and what to do about it. */
export interface Meaning {
  title: string;
  fix: string;
}

const load = async (kind: Kind): Promise<Table> => (await TABLES[kind]()).default;

function meaning(table: Table | undefined, code: string): Meaning | undefined {
  const [title, fix] = (table && Object.hasOwn(table, code) ? table[code] : undefined) ?? [];
  return title && fix ? { title, fix } : undefined;
}

/** The meaning of codes of a kind, where Chinese is spoken and the code is known. */
export function useMeaning(kind: Kind): (code: string) => Meaning | undefined {
  const wanted = useLanguage() === "zh";
  const { data } = useQuery({ queryKey: ["chinese", kind], queryFn: () => load(kind), enabled: wanted, staleTime: Infinity, retry: false });
  return (code) => (wanted ? meaning(data, code) : undefined);
}

/** The same where nothing is drawn. */
export async function meaningOf(kind: Kind, code: string): Promise<Meaning | undefined> {
  if (language() !== "zh") return undefined;
  return meaning(await load(kind).catch(() => undefined), code);
}

/** The scripts of a skill that can be run, and the command line of one as it is written. */
import type { SkillDetail } from "@/api/skills";

const RUNS = /\.(?:py|sh|bash|js|mjs|cjs|ts|mts)$/;

/** The scripts that can be chosen, the skill's own first. */
export function scriptsOf({ files, run: { entry } }: Pick<SkillDetail, "files" | "run">): readonly string[] {
  const names = files.map((file) => file.name).filter((name) => RUNS.test(name) && !name.endsWith("__init__.py") && !name.startsWith("tests/"));
  return entry ? [entry, ...names.filter((name) => name !== entry)] : names;
}

/** One argument a line, as written; empty lines are none. */
export const argumentsOf = (lines: string): string[] => lines.split(/\r\n|\r|\n/).filter((argument) => argument !== "");

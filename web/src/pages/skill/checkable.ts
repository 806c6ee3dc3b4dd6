/** Whether a skill has anything to test, or to be found by, as far as its files tell. */
import type { SkillDetail } from "@/api/skills";

const PROMPTS = /^evals\/[^/]+\.(json|jsonl|ya?ml)$/i;

export function checkable({ files, front_matter: { examples } }: Pick<SkillDetail, "files" | "front_matter">, kind: "test" | "eval"): boolean {
  if (kind === "eval") return files.some(({ name }) => PROMPTS.test(name));
  return files.some(({ name }) => name.startsWith("tests/") || name === "evals/evals.json") || (Array.isArray(examples) && examples.length > 0);
}

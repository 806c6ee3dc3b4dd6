/** What the scanner says of skills of a list, asked together for those that are drawn. */
import { queryOptions } from "@tanstack/react-query";

import { answer, api } from "./client";
import { Problem } from "./problem";
import type { components } from "./schema";

export type SkillRisk = components["schemas"]["SkillRisk"];

const TOGETHER_MS = 60;
const MOST = 50; // as many as the server takes
const AGAIN_MS = 3_000;
const TIMES = 10; // then it cannot be scanned

interface Waiting {
  take: (verdict: SkillRisk) => void;
  fail: (why: unknown) => void;
}

let waiting = new Map<string, Waiting[]>();

/** Ask for one; those of the same moment go in one request. */
function verdictOf(skill: string): Promise<SkillRisk> {
  if (waiting.size === 0) setTimeout(() => void send(), TOGETHER_MS);
  return new Promise((take, fail) => {
    waiting.set(skill, [...(waiting.get(skill) ?? []), { take, fail }]);
  });
}

async function send(): Promise<void> {
  const asked = waiting;
  waiting = new Map();
  const ids = [...asked.keys()];
  for (let begin = 0; begin < ids.length; begin += MOST) {
    const some = ids.slice(begin, begin + MOST);
    try {
      const found = await answer(api.GET("/api/v1/catalog/verdicts", { params: { query: { skill: some } } }));
      for (const verdict of found) for (const { take } of asked.get(verdict.skill) ?? []) take(verdict);
    } catch (why) {
      for (const id of some) for (const { fail } of asked.get(id) ?? []) fail(why instanceof Problem ? why : new Problem({ status: 0, code: "unreachable", detail: "" }));
    }
  }
}

export const verdictQuery = (skill: string) =>
  queryOptions({
    queryKey: ["catalog", "verdict", skill],
    queryFn: () => verdictOf(skill),
    staleTime: 300_000,
    retry: false,
    refetchInterval: ({ state: { data, dataUpdateCount } }) => (data && !data.scanned && dataUpdateCount < TIMES ? AGAIN_MS : false),
  });

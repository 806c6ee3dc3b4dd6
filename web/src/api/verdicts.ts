/** What is known of skills of a list beside themselves: what the scanner says, and how often and when last they were used. */
import { queryOptions } from "@tanstack/react-query";

import { answer, api } from "./client";
import type { components } from "./schema";
import { together } from "./together";

export type SkillRisk = components["schemas"]["SkillRisk"];
export type SkillUse = components["schemas"]["SkillUse"];

const AGAIN_MS = 3_000;
const TIMES = 10; // then it cannot be scanned

const verdictOf = together((skill) => answer(api.GET("/api/v1/catalog/verdicts", { params: { query: { skill } } })));
const lastUseOf = together((skill) => answer(api.GET("/api/v1/catalog/uses", { params: { query: { skill } } })));

export const verdictQuery = (skill: string) =>
  queryOptions({
    queryKey: ["catalog", "verdict", skill],
    queryFn: () => verdictOf(skill),
    staleTime: 300_000,
    retry: false,
    refetchInterval: ({ state: { data, dataUpdateCount } }) => (data && !data.scanned && dataUpdateCount < TIMES ? AGAIN_MS : false),
  });

export const skillUseQuery = (skill: string) =>
  queryOptions({
    queryKey: ["catalog", "use", skill],
    queryFn: () => lastUseOf(skill),
    staleTime: 60_000,
    retry: false,
  });

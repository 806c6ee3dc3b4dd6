/** One skill: everything about it, and what can be done with it. */
import { queryOptions } from "@tanstack/react-query";

import { answer, api, whole } from "./client";
import type { components } from "./schema";

export type SkillDetail = components["schemas"]["DetailedSkill"];
export type Needs = components["schemas"]["SkillNeeds"];
export type Powers = components["schemas"]["Powers"];
export type Harm = components["schemas"]["Finding"];
export type Loading = components["schemas"]["ClientCompatibility"];
export type SkillFile = components["schemas"]["SkillFile"];

/** The id among the installed skills, of a skill of the catalog that is one. */
export function installedId(id: string): string | undefined {
  return id.startsWith("installed:") ? id.slice("installed:".length) : undefined;
}

export const skillQuery = (skill: string) =>
  queryOptions({
    queryKey: ["skill", skill, "detail"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/catalog/skill", { params: { query: { skill } }, signal })),
  });

export const scanQuery = (skill: string) =>
  queryOptions({
    queryKey: ["skill", skill, "scan"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/catalog/scan", { params: { query: { skill } }, signal })),
    staleTime: 60_000,
  });

/** The exact text that a model reads when it loads the skill. */
export const modelTextQuery = (skill: string) =>
  queryOptions({
    queryKey: ["skill", skill, "model"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/catalog/model-text", { params: { query: { skill } }, signal })),
  });

export const clientsQuery = (skill: string) =>
  queryOptions({
    queryKey: ["skill", skill, "clients"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/catalog/clients", { params: { query: { skill } }, signal })),
    staleTime: 60_000,
  });

export type SkillState = SkillDetail["state"];

export const SKILL_STATES = ["pinned", "automatic", "name-only", "manual", "off"] as const satisfies readonly SkillState[];

/** Set the state of a skill. */
export const setSkillState = ({ skill, state }: { skill: string; state: SkillState }) => answer(api.PUT("/api/v1/catalog/state", { body: { skill, state } }));

/** Whether this page is looked at on the server's own machine, which has a desktop to open folders on. */
export const openingQuery = () =>
  queryOptions({
    queryKey: ["catalog", "opening"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/catalog/opening", { signal })),
    staleTime: Infinity,
  });

/** Open the folder of a skill in the file manager. */
export const openSkillFolder = (skill: string) => answer(api.POST("/api/v1/catalog/open", { body: { skill } }));

/** Delete a skill of the user, with its folder. */
export const deleteSkill = (skill: string) => whole(api.DELETE("/api/v1/catalog", { params: { query: { skill } } }));

/** Let an installed skill serve no more; its versions stay. */
export const uninstallSkill = (id: string) => answer(api.DELETE("/api/v1/skill-definitions/{id}", { params: { path: { id } } }));

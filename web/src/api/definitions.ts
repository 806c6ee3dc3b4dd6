/** What is shown of an installed skill: what its SKILL.md says, and what a person says in its place. */
import { queryOptions } from "@tanstack/react-query";

import { answer, api } from "./client";
import type { components } from "./schema";

export type Definition = components["schemas"]["Definition"];
export type DefinitionEdit = components["schemas"]["DefinitionEdit"];

export const definitionQuery = (id: string) =>
  queryOptions({
    queryKey: ["skill", "definition", id],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/skill-definitions/{id}", { params: { path: { id } }, signal })),
  });

/** Say something else of a skill than its SKILL.md; null lets that speak again. */
export const editDefinition = ({ id, edit }: { id: string; edit: DefinitionEdit }) =>
  answer(api.PUT("/api/v1/skill-definitions/{id}", { params: { path: { id } }, body: edit }));

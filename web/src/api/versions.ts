/** The versions of an installed skill, what was done to it, and what is different between two. */
import { queryOptions } from "@tanstack/react-query";

import { answer, api } from "./client";
import type { components } from "./schema";

export type Version = components["schemas"]["VersionDetail"];
export type InstallLog = components["schemas"]["InstallLogDetail"];
export type TreeDifference = Pick<components["schemas"]["VersionComparison"], "files" | "unchanged">;
export type Effect = components["schemas"]["Effect"];
export type VersionContent = components["schemas"]["VersionContent"];

export const versionsQuery = (id: string) =>
  queryOptions({
    queryKey: ["skill", "versions", id],
    queryFn: ({ signal }) =>
      answer(api.GET("/api/v1/skill-definitions/{id}/versions", { params: { path: { id }, query: { limit: 200 } }, signal })),
  });

export type Need = components["schemas"]["Need"];

export const dependenciesQuery = (id: string) =>
  queryOptions({
    queryKey: ["skill", "dependencies", id],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/skill-definitions/{id}/dependencies", { params: { path: { id } }, signal })),
  });

export const installLogsQuery = (id: string) =>
  queryOptions({
    queryKey: ["skill", "logs", id],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/skill-definitions/{id}/install-logs", { params: { path: { id } }, signal })),
  });

export const differenceQuery = (id: string, before: string, after: string) =>
  queryOptions({
    queryKey: ["skill", "difference", id, before, after],
    queryFn: ({ signal }) =>
      answer(api.GET("/api/v1/skill-definitions/{id}/versions/{before}/diff/{after}", { params: { path: { id, before, after } }, signal })),
    staleTime: Infinity, // versions never change
  });

/** What a rollback is refused for by default, and the member of its request that agrees to it. */
export const AGREED = {
  local_edits: { force: true },
  signer_changed: { accept_signer: true },
  source_changed: { accept_source: true },
  skill_required: { dependencies: false },
} as const;

type Agreement = keyof typeof AGREED;

export const canAgree = (code: string): code is Agreement => code in AGREED;

/** Let another version serve; `agreed` are the codes of the refusals that somebody has agreed to overrule. */
export const rollbackTo = ({ id, version, agreed }: { id: string; version: string; agreed: readonly Agreement[] }) => {
  const members = { force: false, accept_signer: false, accept_source: false, dependencies: true };
  for (const code of agreed) Object.assign(members, AGREED[code]);
  return answer(api.POST("/api/v1/skill-definitions/{id}/rollback", { params: { path: { id } }, body: { version, ...members } }));
};

/** The versions of an installed skill, what was done to it, and what is different between two. */
import { queryOptions } from "@tanstack/react-query";

import { answer, api } from "./client";
import type { components } from "./schema";

export type Version = components["schemas"]["VersionDetail"];
export type InstallLog = components["schemas"]["InstallLogDetail"];
export type TreeDifference = components["schemas"]["TreeDifference"];

export const versionsQuery = (id: string) =>
  queryOptions({
    queryKey: ["skill", "versions", id],
    queryFn: ({ signal }) =>
      answer(api.GET("/api/v1/skill-definitions/{id}/versions", { params: { path: { id }, query: { limit: 200 } }, signal })),
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

/** Let another version serve; `force` also over files that were changed by hand. */
export const rollbackTo = ({ id, version, force = false }: { id: string; version: string; force?: boolean }) =>
  answer(api.POST("/api/v1/skill-definitions/{id}/rollback", { params: { path: { id } }, body: { version, force } }));

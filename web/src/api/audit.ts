/** Who changed what. */
import { infiniteQueryOptions, keepPreviousData } from "@tanstack/react-query";

import { api, whole } from "./client";
import type { components, paths } from "./schema";

export type AuditEvent = components["schemas"]["AuditEvent"];
export type AuditNarrowing = Pick<NonNullable<paths["/api/v1/audit"]["get"]["parameters"]["query"]>, "actor" | "action" | "subject" | "outcome">;

export const auditQuery = (narrowing: AuditNarrowing, limit = 100) =>
  infiniteQueryOptions({
    queryKey: ["audit", narrowing],
    queryFn: ({ signal, pageParam }) => whole(api.GET("/api/v1/audit", { params: { query: { ...narrowing, page: pageParam, limit } }, signal })),
    initialPageParam: 1,
    getNextPageParam: ({ meta }) => (meta.page < meta.totalPages ? meta.page + 1 : undefined),
    placeholderData: keepPreviousData,
    refetchInterval: 15_000,
  });

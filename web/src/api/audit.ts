/** Who changed what. */
import { infiniteQueryOptions, keepPreviousData } from "@tanstack/react-query";

import type { AuditSearch } from "@/app/search";

import { api, whole } from "./client";
import { laterBy } from "./insights";
import type { components, paths } from "./schema";

export type AuditEvent = components["schemas"]["AuditRecord"];
type Asked = NonNullable<paths["/api/v1/audit"]["get"]["parameters"]["query"]>;

function asked({ q, since, until, ...named }: AuditSearch): Asked {
  const given = JSON.parse(JSON.stringify({ ...named, text: q })) as Asked; // without what is undefined
  return { ...given, ...(since ? { since: `${since}T00:00:00Z` } : {}), ...(until ? { until: `${laterBy(1, until)}T00:00:00Z` } : {}) };
}

export const auditQuery = (narrowing: AuditSearch, limit = 100) =>
  infiniteQueryOptions({
    queryKey: ["audit", narrowing],
    queryFn: ({ signal, pageParam }) => whole(api.GET("/api/v1/audit", { params: { query: { ...asked(narrowing), page: pageParam, limit } }, signal })),
    initialPageParam: 1,
    getNextPageParam: ({ meta }) => (meta.page < meta.totalPages ? meta.page + 1 : undefined),
    placeholderData: keepPreviousData,
    refetchInterval: 15_000,
  });

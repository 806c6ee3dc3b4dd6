/** Questions about the skills that can be seen. */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";

import { answer, api, whole } from "./client";
import type { components, paths } from "./schema";

export type Entry = components["schemas"]["ListedSkill"];
export type SearchMatch = components["schemas"]["SearchMatch"];
export type Narrowing = Omit<NonNullable<paths["/api/v1/catalog"]["get"]["parameters"]["query"]>, "page" | "limit">;

/** How many skills one page of the list holds. */
export const CATALOG_PAGE = 100;

const SCANNING_MS = 3_000; // while the server scans for an order by risk

export const catalogQuery = (narrowing: Narrowing) =>
  infiniteQueryOptions({
    queryKey: ["catalog", "list", narrowing],
    queryFn: ({ signal, pageParam }) =>
      whole(api.GET("/api/v1/catalog", { params: { query: { ...narrowing, page: pageParam, limit: CATALOG_PAGE } }, signal })),
    initialPageParam: 1,
    getNextPageParam: ({ meta }) => (meta.page < meta.totalPages ? meta.page + 1 : undefined),
    placeholderData: keepPreviousData,
    refetchInterval: ({ state: { data } }) => (data?.pages.at(-1)?.meta.unscanned ? SCANNING_MS : false),
  });

export const facetsQuery = () =>
  queryOptions({
    queryKey: ["catalog", "facets"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/catalog/facets", { signal })),
  });

/** The usable skills that fit what somebody wants, the best first; those below the confidence `least` are left out. */
export const searchQuery = (q: string, limit: number, { starred, collection, sort }: Narrowing = {}, least = 0) =>
  queryOptions({
    queryKey: ["catalog", "search", { q, limit, starred, collection, sort, least }],
    queryFn: ({ signal }) =>
      answer(
        api.GET("/api/v1/catalog/search", {
          params: { query: { q, limit, ...(least ? { min_confidence: least } : {}), ...(starred ? { starred } : {}), ...(collection ? { collection } : {}), ...(sort ? { sort } : {}) } },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
  });

/** Whether skills are offered to models at all. */
export const enabledQuery = () =>
  queryOptions({
    queryKey: ["catalog", "enabled"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/catalog/enabled", { signal })),
  });

/** Offer skills to models, or none of them; the states of single skills are kept. */
export const enableSkills = (enabled: boolean) => answer(api.PUT("/api/v1/catalog/enabled", { body: { enabled } }));

/** Look at the folders again. */
export const refreshCatalog = () => answer(api.POST("/api/v1/catalog/refresh"));

export const setsQuery = () =>
  queryOptions({
    queryKey: ["catalog", "sets"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/catalog/sets", { signal })),
  });

/** Offer only the skills of a set, or all of them. */
export const chooseSet = (name: string | null) => answer(api.PUT("/api/v1/catalog/sets", { body: { name } }));

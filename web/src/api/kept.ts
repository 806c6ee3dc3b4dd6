/** What a person keeps of the catalog: stars, collections of skills, and saved searches; the server has them. */
import { queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";

import { notifyProblem } from "@/parts/notify";

import { answer, api, whole } from "./client";
import type { components } from "./schema";

export type SkillCollection = components["schemas"]["SkillCollection"];
export type SavedSearch = components["schemas"]["SavedSearchShape"];
export type SearchWords = components["schemas"]["CatalogSearch"];

/** The ids of the skills with a star. */
export const starsQuery = () =>
  queryOptions({
    queryKey: ["kept", "stars"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/catalog/stars", { signal })),
    staleTime: 60_000,
  });

/** Whether a skill has a star, and what gives or takes it; shown at once. */
export function useStar(skill: string): { starred: boolean; known: boolean; set: (starred: boolean) => void } {
  const cache = useQueryClient();
  const { queryKey } = starsQuery();
  const stars = useQuery(starsQuery()).data;
  const changing = useMutation({
    mutationFn: (starred: boolean) => answer(api.PUT("/api/v1/catalog/stars", { body: { skill, starred } })),
    onMutate: (starred) => {
      cache.setQueryData(queryKey, (before = []) => [...(starred ? [skill] : []), ...before.filter((one) => one !== skill)]);
    },
    onError: (error) => {
      notifyProblem(error);
      void cache.invalidateQueries({ queryKey });
    },
    onSuccess: () => cache.invalidateQueries({ queryKey: ["catalog"], predicate: ({ queryKey: [, , narrowing] }) => JSON.stringify(narrowing ?? null).includes('"starred":true') }),
  });
  return { starred: stars?.includes(skill) ?? false, known: stars !== undefined, set: changing.mutate };
}

export const collectionsQuery = () =>
  queryOptions({
    queryKey: ["kept", "collections"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/catalog/collections", { signal })),
    staleTime: 60_000,
  });

/** Put a skill into a collection, which begins with it, or take it out. */
export const collect = (body: { name: string; skill: string; included: boolean }) => answer(api.PUT("/api/v1/catalog/collections", { body }));

export const deleteCollection = (name: string) => whole(api.DELETE("/api/v1/catalog/collections", { params: { query: { name } } }));

export const searchesQuery = () =>
  queryOptions({
    queryKey: ["kept", "searches"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/catalog/searches", { signal })),
    staleTime: 60_000,
  });

export const saveSearch = (body: { name: string; search: SearchWords }) => answer(api.PUT("/api/v1/catalog/searches", { body }));

export const deleteSearch = (name: string) => whole(api.DELETE("/api/v1/catalog/searches", { params: { query: { name } } }));

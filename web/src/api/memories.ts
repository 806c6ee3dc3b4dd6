/** What skills and people want remembered for whoever asks. */
import { keepPreviousData, queryOptions } from "@tanstack/react-query";

import { answer, api } from "./client";
import type { components } from "./schema";

export type Memory = components["schemas"]["MemoryDetail"];
export type MemoryBody = components["schemas"]["MemoryBody"];

/** The newest memories; with a question those that fit it, the best first. */
export const memoriesQuery = (question: string) =>
  queryOptions({
    queryKey: ["memories", question],
    queryFn: ({ signal }): Promise<(Memory & { score?: number })[]> =>
      question
        ? answer(api.GET("/api/v1/memories/recall", { params: { query: { q: question, limit: 50, threshold: 0.2 } }, signal }))
        : answer(api.GET("/api/v1/memories", { params: { query: { limit: 200 } }, signal })),
    placeholderData: keepPreviousData,
  });

export const remember = (body: MemoryBody) => answer(api.POST("/api/v1/memories", { body }));

export const forget = (id: string) => answer(api.DELETE("/api/v1/memories/{memory_id}", { params: { path: { memory_id: id } } }));

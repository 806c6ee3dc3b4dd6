/** Usage of skills: how often, how it ended, how long it took, what it cost; by skill, version, agent, caller, interface or model. */
import { keepPreviousData, queryOptions } from "@tanstack/react-query";

import { answer, api } from "./client";
import type { components } from "./schema";

export type InsightReport = components["schemas"]["InsightReport"];
export type InsightRow = components["schemas"]["InsightRow"];
export type Figures = components["schemas"]["UsageFigures"];
export type Dimension = InsightReport["by"];

export const DIMENSIONS: readonly Dimension[] = ["skill", "version", "agent", "caller", "interface", "model"];

const DAY_MS = 86_400_000;
const ADDING_MS = 1_500; // while the server still adds up
const LOOK_MS = 60_000;

/** The day of UTC so many days before today, as 2026-11-23. */
export const daysAgo = (days: number): string => new Date(Date.now() - days * DAY_MS).toISOString().slice(0, 10);

/** The day so many days after one. */
export const laterBy = (days: number, day: string): string => new Date(Date.parse(day) + days * DAY_MS).toISOString().slice(0, 10);

export interface InsightAsked {
  by: Dimension;
  since: string;
  until: string;
  period?: InsightReport["period"];
  skill?: string | undefined;
  /** Only what was offered and neither loaded nor run. */
  unused?: boolean;
  limit?: number;
}

export const insightsQuery = ({ by, since, until, period = "all", skill, unused = false, limit = 100 }: InsightAsked) =>
  queryOptions({
    queryKey: ["insights", by, since, until, period, skill, unused, limit],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/insights", { params: { query: { by, since, until, period, unused, limit, ...(skill ? { skill } : {}) } }, signal })),
    placeholderData: keepPreviousData,
    staleTime: 20_000,
    refetchInterval: ({ state: { data } }) => (data && !data.complete ? ADDING_MS : LOOK_MS),
  });

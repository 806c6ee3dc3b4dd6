/** Skills that run at a time, or again and again. */
import { keepPreviousData, queryOptions } from "@tanstack/react-query";

import { answer, api } from "./client";
import { type RunGiven, uploaded } from "./runs";
import type { components } from "./schema";

export type Schedule = components["schemas"]["ScheduleDetail"];
export type NewSchedule = components["schemas"]["ScheduleBody"];
export type Times = components["schemas"]["ScheduleTimes"];

const LOOK_MS = 10_000; // they come due by themselves

export const schedulesQuery = () =>
  queryOptions({
    queryKey: ["schedules", "list"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/schedules", { signal })),
    refetchInterval: LOOK_MS,
  });

export const scheduleQuery = (name: string) =>
  queryOptions({
    queryKey: ["schedules", "one", name],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/schedules/{name}", { params: { path: { name } }, signal })),
    refetchInterval: LOOK_MS,
  });

/** The first times at which a schedule would come due that is made now. */
export const timesQuery = (times: Times) =>
  queryOptions({
    queryKey: ["schedules", "times", times],
    queryFn: ({ signal }) => answer(api.POST("/api/v1/schedules/preview", { body: times, signal })),
    placeholderData: keepPreviousData,
    retry: false,
  });

type When = Omit<NewSchedule, keyof RunGiven>;

/** Make a schedule, whose runs are each given the same. */
export const addSchedule = async ({ when, given }: { when: When; given: RunGiven }) =>
  answer(api.POST("/api/v1/schedules", { body: { ...when, ...(await uploaded(given)) } }));

export type ScheduleChange = components["schemas"]["ScheduleChange"];

/** Change what is named of a schedule; with files also those that its runs are given. */
export async function changeSchedule({ name, change, given }: { name: string; change: ScheduleChange; given?: RunGiven | undefined }) {
  const { parameters, entry, arguments: line, packages, files } = given ? await uploaded(given) : {};
  const input = given ? { parameters: parameters ?? {}, entry: entry ?? null, arguments: line ?? [], packages: packages ?? [], ...(files?.length ? { files } : {}) } : {};
  return answer(api.PATCH("/api/v1/schedules/{name}", { ...of(name), body: { ...change, ...input } }));
}

/** Begin a run of it now; gives the id of the run. */
export const runSchedule = async (name: string) => (await answer(api.POST("/api/v1/schedules/{name}/run", of(name)))).run_id;

const of = (name: string) => ({ params: { path: { name } } });

/** Let it rest, or go on. */
export const pauseSchedule = ({ name, paused }: { name: string; paused: boolean }) =>
  answer(paused ? api.POST("/api/v1/schedules/{name}/pause", of(name)) : api.POST("/api/v1/schedules/{name}/resume", of(name)));

/** Let one whose maker's key does not hold any more go on for whoever asks. */
export const takeOverSchedule = (name: string) => answer(api.POST("/api/v1/schedules/{name}/take-over", of(name)));

export const removeSchedule = (name: string) => answer(api.DELETE("/api/v1/schedules/{name}", of(name)));

/** Questions about runs, and the events of one run. */
import { infiniteQueryOptions, keepPreviousData, queryOptions, useQuery, useQueryClient, type UseQueryOptions } from "@tanstack/react-query";
import { useEffect, useReducer } from "react";

import { answer, api, whole } from "./client";
import { laterBy } from "./insights";
import { type Preview, shown } from "./previews";
import { isOver, type RunInterface, type RunState } from "./runStates";
import type { components, paths } from "./schema";

export type ListedRun = components["schemas"]["ListedRun"];
export type RunSummary = Omit<ListedRun, "runs" | "failures">;
export type RunCounts = components["schemas"]["RunCounts"];
export type RunDetail = components["schemas"]["RunDetail"];
export type MadeFile = components["schemas"]["MadeFile"];
export type RunStep = components["schemas"]["RunStep"];
export type RunAsked = components["schemas"]["RunQuestionAsked"];
type RunEvent = components["schemas"]["RunEvent"];

export interface RunNarrowing {
  skill?: string | undefined;
  state?: RunState | undefined;
  schedule?: string | undefined;
  interface?: RunInterface | undefined;
  caller?: string | undefined;
  agent?: string | undefined;
  /** What the skill declared then. */
  version?: string | undefined;
  /** The first and the last day, of UTC, as 2026-11-23. */
  since?: string | undefined;
  until?: string | undefined;
  /** Without tests of skills, as insights count. */
  tests?: false | undefined;
}

type RunsAsked = NonNullable<paths["/api/v1/runs"]["get"]["parameters"]["query"]>;

function asked({ state, since, until, ...named }: RunNarrowing): RunsAsked {
  const given = JSON.parse(JSON.stringify(named)) as RunsAsked; // without what is undefined
  return {
    ...given,
    ...(state ? { state: [state] } : {}),
    ...(since ? { since: `${since}T00:00:00Z` } : {}),
    ...(until ? { until: `${laterBy(1, until)}T00:00:00Z` } : {}),
  };
}

/** The runs, the newest first; where they are to `fold`, those of one schedule are one row. */
export const runsQuery = (narrowing: RunNarrowing, limit = 50, fold = false) =>
  infiniteQueryOptions({
    queryKey: ["runs", "list", narrowing, limit, fold],
    queryFn: ({ signal, pageParam }) => whole(api.GET("/api/v1/runs", { params: { query: { ...asked(narrowing), fold, page: pageParam, limit } }, signal })),
    initialPageParam: 1,
    getNextPageParam: ({ meta }) => (meta.page < meta.totalPages ? meta.page + 1 : undefined),
    placeholderData: keepPreviousData,
    // Runs begin and end elsewhere too: at a terminal, in an agent.
    refetchInterval: ({ state: { data } }) =>
      data?.pages.some((page) => page.data.some((run) => !isOver(run.state))) ? 1_500 : 10_000,
  });

/** The newest runs of something that is looked at closer. */
export const newestRunsQuery = (narrowing: RunNarrowing, limit: number) =>
  queryOptions({
    queryKey: ["runs", "list", narrowing, limit, "newest"],
    queryFn: ({ signal }) => whole(api.GET("/api/v1/runs", { params: { query: { ...asked(narrowing), limit } }, signal })),
    refetchInterval: 10_000,
  });

/** How many runs of the list ended how, day by day. */
export const runCountsQuery = (narrowing: RunNarrowing) =>
  queryOptions({
    queryKey: ["runs", "counts", narrowing],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/runs/counts", { params: { query: asked(narrowing) }, signal })),
    placeholderData: keepPreviousData,
    refetchInterval: 20_000,
  });

/** The newest runs of the last days that went wrong, and those that went well: which skills fail now is seen in both; a test is none. */
export const failuresQuery = (since: string) =>
  queryOptions({
    queryKey: ["runs", "failures", since],
    queryFn: async ({ signal }) => {
      const newest = (state: RunState[]) => answer(api.GET("/api/v1/runs", { params: { query: { state, since: `${since}T00:00:00Z`, tests: false, limit: 100 } }, signal }));
      const [failed, succeeded] = await Promise.all([newest(["failed", "interrupted"]), newest(["succeeded"])]);
      return { failed, succeeded };
    },
    refetchInterval: 20_000,
  });

/** How many runs there ever were. */
export const runCountQuery = () =>
  queryOptions({
    queryKey: ["runs", "count"],
    queryFn: async ({ signal }) => (await whole(api.GET("/api/v1/runs", { params: { query: { limit: 1 } }, signal }))).meta.total,
  });

export const runQuery = (id: string) =>
  queryOptions({
    queryKey: ["runs", "one", id],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/runs/{run_id}", { params: { path: { run_id: id } }, signal })),
    refetchInterval: ({ state: { data } }) => (data && !isOver(data.state) ? 4_000 : false), // where no events come through
  });

export const cancelRun = (id: string) => answer(api.POST("/api/v1/runs/{run_id}/cancel", { params: { path: { run_id: id } } }));

/** What a run that goes on has reported since the page was opened. */
export interface RunProgress {
  state: RunState | undefined;
  stdout: string;
  stderr: string;
  steps: readonly RunStep[];
  asked: RunAsked | undefined;
}

const NOTHING: RunProgress = { state: undefined, stdout: "", stderr: "", steps: [], asked: undefined };

function withEvent(before: RunProgress, event: RunEvent | "again"): RunProgress {
  if (event === "again") return NOTHING;
  switch (event.event) {
    case "state":
      return { ...before, state: event.state, asked: event.state === "running" ? undefined : before.asked };
    case "log":
      return { ...before, [event.stream]: before[event.stream] + event.text };
    case "step":
      return { ...before, steps: [...before.steps, event.step] };
    case "asked":
      return { ...before, asked: event };
    case "end":
      return { ...before, state: event.run.state, asked: undefined };
  }
}

/** One run, and what it reports while it goes on. */
export function useRun(id: string) {
  const query = useQuery(runQuery(id));
  const cache = useQueryClient();
  const [progress, dispatch] = useReducer(withEvent, NOTHING);
  const goesOn = query.data !== undefined && !isOver(query.data.state);
  useEffect(() => {
    if (!goesOn) return;
    dispatch("again");
    const source = new EventSource(`/api/v1/runs/${encodeURIComponent(id)}/events`);
    const take = ({ data }: MessageEvent<string>) => {
      const event = JSON.parse(data) as RunEvent;
      dispatch(event);
      if (event.event === "end") {
        source.close();
        cache.setQueryData(runQuery(id).queryKey, event.run);
        void cache.invalidateQueries({ queryKey: ["runs", "list"] });
      }
    };
    for (const name of ["state", "log", "step", "asked", "end"]) source.addEventListener(name, take);
    return () => source.close();
  }, [goesOn, id, cache]);
  return { query, progress };
}

/** What a run is given beside its skill, as a form has it: its files are still those of this machine. */
export interface RunGiven {
  parameters: Record<string, unknown>;
  context: Record<string, unknown>;
  entry: string | undefined;
  arguments: string[];
  packages: string[];
  files: readonly File[];
}

/** What a run is given as a request writes it: its files are uploaded. */
export async function uploaded({ files, entry, ...given }: RunGiven) {
  const uploads = [];
  for (const file of files) uploads.push({ name: "", upload: (await upload(file)).id });
  return { ...given, ...(entry ? { entry } : {}), files: uploads };
}

export interface RunOrder extends RunGiven {
  skill: string;
  fresh: boolean;
  /** Of an installed skill: not the version that serves, but this one. */
  version?: string | undefined;
}

/** Start a skill, and let it go on. */
export async function startRun({ skill, fresh, version, ...given }: RunOrder) {
  const which = version === undefined ? { skill } : { skill, version };
  return answer(api.POST("/api/v1/runs", { body: { ...which, fresh, ...(await uploaded(given)), wait: false, priority: 0 } }));
}

/** Try a skill out: its tests and examples; what comes of it is a run whose steps are the cases. */
export const startTests = ({ skill, version }: { skill: string; version?: string | undefined }) =>
  answer(api.POST("/api/v1/runs/tests", { body: version === undefined ? { skill } : { skill, version } }));

/** Try whether the prompts of a skill find it; what comes of it is a run whose steps are the prompts. */
export const startTriggers = ({ skill }: { skill: string }) => answer(api.POST("/api/v1/runs/triggers", { body: { skill } }));

function upload(file: File) {
  const sent = { body: file as unknown as string, bodySerializer: () => file, headers: { "Content-Type": "application/octet-stream" } };
  return answer(api.POST("/api/v1/runs/uploads", { params: { query: { name: file.name } }, ...sent }));
}

export const madeFilesQuery = (run: string) =>
  queryOptions({
    queryKey: ["runs", "files", run],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/runs/{run_id}/files", { params: { path: { run_id: run } }, signal })),
    staleTime: Infinity,
  });

export const madeFileAddress = (run: string, name: string): string =>
  `/api/v1/runs/${encodeURIComponent(run)}/files/${name.split("/").map(encodeURIComponent).join("/")}`;

/** A file that a run made, as the server shows it; `part` is a page or a sheet, from 0. */
export const madeFileQuery = (run: string, { name }: MadeFile, part: number): UseQueryOptions<Preview> => ({
  queryKey: ["runs", "files", run, "preview", name, part],
  queryFn: async ({ signal }) =>
    shown(await answer(api.GET("/api/v1/runs/{run_id}/preview/{path}", { params: { path: { run_id: run, path: name }, query: { page: part + 1, sheet: part } }, signal }))),
  staleTime: Infinity,
});

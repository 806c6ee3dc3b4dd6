/** Where the time, the tokens and the money of a run or of a turn went. */
import { queryOptions } from "@tanstack/react-query";

import type { Turn } from "./chat";
import { answer, api } from "./client";
import type { RunStep } from "./runs";
import type { components } from "./schema";

export type Timeline = components["schemas"]["Timeline"];
export type Span = components["schemas"]["TimelineSpan"];

const LOOK_MS = 2_000; // while it goes on

const going = ({ state: { data } }: { state: { data: Timeline | undefined } }) => (data && !data.over ? LOOK_MS : false);

export const runTimelineQuery = (id: string) =>
  queryOptions({
    queryKey: ["runs", "timeline", id],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/runs/{run_id}/timeline", { params: { path: { run_id: id } }, signal })),
    refetchInterval: going,
  });

/** Of a turn in the state it has now: after an answer there is more to say. */
export const turnTimelineQuery = ({ conversation_id, id, state }: Turn) =>
  queryOptions({
    queryKey: ["chat", "timeline", conversation_id, id, state],
    queryFn: ({ signal }) =>
      answer(api.GET("/api/v1/chat/conversations/{conversation}/turns/{turn}/timeline", { params: { path: { conversation: conversation_id, turn: id } }, signal })),
    refetchInterval: going,
  });

/** Steps as spans, one after the other: of a run that goes on, or where nothing else of it is shown. */
export function spansOf(steps: readonly RunStep[]): Span[] {
  let begin_ms = 0;
  return steps.map(({ stepId, stepName, duration, error }, step) => {
    const duration_ms = Math.max(0, duration);
    const span: Span = {
      kind: "step", name: stepName || stepId, state: error ? "failed" : "ok", begin_ms, duration_ms, depth: 0, code: null,
      input_tokens: 0, output_tokens: 0, tokens: 0, cost: null, call: null, skill: null, run: null, step,
    }; // prettier-ignore
    begin_ms += duration_ms;
    return span;
  });
}

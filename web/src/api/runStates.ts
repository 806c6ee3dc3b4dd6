/** Where a run can be. */
import type { components } from "./schema";

export type RunState = components["schemas"]["RunSummary"]["state"];

export const RUN_STATES: readonly RunState[] = ["queued", "running", "succeeded", "failed", "cancelled", "interrupted"];

/** Whether nothing comes any more. */
export const isOver = (state: RunState): boolean => state !== "queued" && state !== "running";

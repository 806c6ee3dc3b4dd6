/** Where a run can be. */
import type { components } from "./schema";

export type RunState = components["schemas"]["RunDetail"]["state"];

export const RUN_STATES: readonly RunState[] = ["queued", "running", "succeeded", "failed", "cancelled", "interrupted"];

export type RunInterface = "library" | "cli" | "http" | "mcp" | "chat" | "schedule" | "event" | "test" | "eval";

/** Through what a run is asked for. */
export const INTERFACES: readonly RunInterface[] = ["http", "chat", "cli", "mcp", "schedule", "event", "test", "eval", "library"];

/** Whether nothing comes any more. */
export const isOver = (state: RunState): boolean => state !== "queued" && state !== "running";

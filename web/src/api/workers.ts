/** Who works for which pool of workers, on what, and how much waits. */
import { queryOptions } from "@tanstack/react-query";

import { answer, api } from "./client";
import type { components } from "./schema";

export type Workers = components["schemas"]["WorkersDetail"];
export type Worker = components["schemas"]["WorkerInfo"];

/** Asked for again every few seconds: workers come and go by themselves. */
export const workersQuery = () =>
  queryOptions({ queryKey: ["workers"], queryFn: ({ signal }) => answer(api.GET("/api/v1/workers", { signal })), refetchInterval: 5000 });

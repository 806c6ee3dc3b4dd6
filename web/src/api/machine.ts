/** What holds for the server, and whether its machine has what is needed. */
import { queryOptions } from "@tanstack/react-query";

import { answer, api } from "./client";
import type { components } from "./schema";

export type Settings = components["schemas"]["SettingsDetail"];
export type Check = components["schemas"]["MachineCheck"];

export const settingsQuery = () =>
  queryOptions({ queryKey: ["settings"], queryFn: ({ signal }) => answer(api.GET("/api/v1/settings", { signal })) });

export const doctorQuery = () =>
  queryOptions({ queryKey: ["doctor"], queryFn: ({ signal }) => answer(api.GET("/api/v1/doctor", { signal })), staleTime: 60_000 });

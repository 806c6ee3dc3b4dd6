/** The files of a skill. */
import { queryOptions } from "@tanstack/react-query";

import { api, whole } from "./client";

/** Where the browser finds a file itself, for pictures and downloads. */
export function fileAddress(skill: string, path: string): string {
  return `/api/v1/catalog/file?${new URLSearchParams({ skill, path }).toString()}`;
}

export const fileQuery = (skill: string, path: string) =>
  queryOptions({
    queryKey: ["skill", skill, "file", path],
    queryFn: ({ signal }) =>
      whole<string>(api.GET("/api/v1/catalog/file", { params: { query: { skill, path } }, parseAs: "text", signal }) as Promise<{ data?: string }>),
  });

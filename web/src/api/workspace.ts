/** The workspace of a conversation: its files on disk, its session, and how a file of it can be shown. */
import { queryOptions, type UseQueryOptions } from "@tanstack/react-query";

import { answer, api } from "./client";
import { type Preview, shown } from "./previews";
import type { components } from "./schema";

export type WorkspaceState = components["schemas"]["WorkspaceState"];
export type WorkspaceEntry = components["schemas"]["WorkspaceEntryShape"];

/** The tools of a workspace, as the server names them. */
export const WORKSPACE_TOOLS = ["bash", "code_run", "file_read", "file_write", "file_edit", "file_list", "file_search"] as const satisfies readonly components["schemas"]["WorkspaceCall"]["tool"][];

const of = (conversation: string) => ({ path: { conversation } });
const base = (conversation: string): string => `/api/v1/chat/conversations/${encodeURIComponent(conversation)}`;

/** All that is known of a workspace; to be asked for again when a call has ended. */
export const workspaceKey = (conversation: string) => ["chat", "workspace", conversation] as const;

export const workspaceQuery = (conversation: string) =>
  queryOptions({
    queryKey: [...workspaceKey(conversation), "state"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/chat/conversations/{conversation}/workspace", { params: of(conversation), signal })),
    // Processes in the background end by themselves.
    refetchInterval: ({ state: { data } }) => (data?.processes.some(({ state }) => state === "running") ? 3_000 : false),
  });

export const workspaceFilesQuery = (conversation: string, hidden: boolean) =>
  queryOptions({
    queryKey: [...workspaceKey(conversation), "files", hidden],
    queryFn: ({ signal }) =>
      answer(api.GET("/api/v1/chat/conversations/{conversation}/workspace/files", { params: { ...of(conversation), query: { hidden } }, signal })),
  });

/** A file as the server shows it; `part` is a page or a sheet, from 0. */
export const workspacePreviewQuery = (conversation: string, { path, modified }: WorkspaceEntry, part: number): UseQueryOptions<Preview> => ({
  queryKey: [...workspaceKey(conversation), "preview", path, modified, part],
  queryFn: async ({ signal }) =>
    shown(
      await answer(
        api.GET("/api/v1/chat/conversations/{conversation}/workspace/preview/{path}", {
          params: { path: { conversation, path }, query: { page: part + 1, sheet: part } },
          signal,
        }),
      ),
    ),
  staleTime: Infinity,
});

/** Where all files are downloaded as one archive. */
export const archiveAddress = (conversation: string, hidden: boolean): string => `${base(conversation)}/workspace/archive${hidden ? "?hidden=true" : ""}`;

/** End the session with all it has started; the files stay. */
export const endSession = (conversation: string) =>
  api.DELETE("/api/v1/chat/conversations/{conversation}/workspace/session", { params: of(conversation) });

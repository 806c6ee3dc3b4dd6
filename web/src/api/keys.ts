/** Keys that let programs and people in, and who looks at the page. */
import { queryOptions } from "@tanstack/react-query";

import { answer, api, whole } from "./client";
import type { components } from "./schema";
import { haveKey } from "./session";

export type Key = components["schemas"]["ApiKey"];
export type NewKey = components["schemas"]["NewKey"];
export type Scope = NewKey["scopes"][number];

export const SCOPES: readonly Scope[] = ["skills:read", "skills:write", "skills:approve", "runs:execute", "workspaces:use", "admin"];

export const keysQuery = () =>
  queryOptions({
    queryKey: ["keys"],
    queryFn: ({ signal }) => whole(api.GET("/api/v1/keys", { params: { query: { limit: 200 } }, signal })),
  });

export const organisationsQuery = () =>
  queryOptions({
    queryKey: ["organisations"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/organisations", { signal })),
  });

export const sessionQuery = () =>
  queryOptions({ queryKey: ["session"], queryFn: ({ signal }) => answer(api.GET("/api/v1/session", { signal })) });

/** Give the key for a cookie that scripts cannot read. */
export async function signIn(key: string): Promise<void> {
  await answer(api.POST("/api/v1/session", { body: { key } }));
  haveKey();
}

/** Give the cookie back. */
export const signOut = () => whole(api.DELETE("/api/v1/session"));

export const makeKey = (body: NewKey) => answer(api.POST("/api/v1/keys", { body }));

export const revokeKey = (id: string) => answer(api.DELETE("/api/v1/keys/{id}", { params: { path: { id } } }));

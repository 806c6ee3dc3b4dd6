/** Clients of MCP that ask a person to let them sign in. */
import { queryOptions } from "@tanstack/react-query";

import { answer, api } from "./client";
import type { Scope } from "./keys";
import type { components } from "./schema";

export type Authorization = components["schemas"]["AuthorizationDetail"];
type AuthorizationRequest = components["schemas"]["AuthorizationQuery"];

const FIELDS = ["redirect_uri", "response_type", "code_challenge", "code_challenge_method", "scope", "state", "resource"] as const;

/** The request of a client, as it stands in the address. */
export function requestIn(search: URLSearchParams): AuthorizationRequest {
  const request: AuthorizationRequest = { client_id: search.get("client_id") ?? "" };
  for (const name of FIELDS) {
    const value = search.get(name);
    if (value !== null) request[name] = value;
  }
  return request;
}

/** Who asks for what. */
export const authorizationQuery = (request: AuthorizationRequest) =>
  queryOptions({
    queryKey: ["authorization", request],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/oauth/authorization", { params: { query: request }, signal })),
    retry: false,
    staleTime: Infinity,
  });

/** Allow these scopes, or refuse: the address to which the browser goes then. */
export const decide = (request: AuthorizationRequest, allow: boolean, scopes: Scope[]) =>
  answer(api.POST("/api/v1/oauth/authorization", { body: { request, allow, scopes } }));

const SCHEME = /^(?!javascript:|data:|vbscript:|blob:|file:)[a-z][a-z0-9+.-]*:\//;

/** Leave this page for the client's address. */
export function goBack(address: string): void {
  if (SCHEME.test(address)) window.location.assign(address);
}

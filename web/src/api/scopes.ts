/** What the one who looks at the page may do: the scopes of their key. */
import { useQuery } from "@tanstack/react-query";

import { type Scope, sessionQuery } from "./keys";

/** Whether scopes permit what needs `scope`; `admin` permits everything. */
export const permits = (scopes: readonly Scope[], scope: Scope): boolean => scopes.includes(scope) || scopes.includes("admin");

/** Whether whoever looks may do what needs this scope; `meanwhile` until that is known. */
export function useMay(scope: Scope, meanwhile = true): boolean {
  const { data } = useQuery(sessionQuery());
  return data ? permits(data.scopes, scope) : meanwhile;
}

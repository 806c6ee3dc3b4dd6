/** Whether the server wants a key from whoever looks at the page: asked once, answered by the sign-in dialog. */
import { useSyncExternalStore } from "react";

import { Problem, problemOf } from "./problem";

let wanted: Problem | undefined;
const listeners = new Set<() => void>();

function set(problem: Problem | undefined): void {
  if (wanted === problem) return;
  wanted = problem;
  for (const listener of listeners) listener();
}

/** Open the dialog; the first refusal of several that come together is shown. */
export function needKey(problem: Problem): void {
  if (!wanted) set(problem);
}

/** The refusal that the dialog answers, if there is one. */
export function useWantedKey(): Problem | undefined {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => wanted,
  );
}

async function send(method: "POST" | "DELETE", body?: object): Promise<void> {
  const response = await fetch("/api/v1/session", {
    method,
    credentials: "same-origin",
    headers: { "Content-Type": "application/json" },
    ...(body ? { body: JSON.stringify(body) } : {}),
  }).catch(() => {
    throw new Problem({ status: 0, code: "unreachable", detail: "" });
  });
  if (!response.ok) throw await problemOf(response);
}

/** Give the key for a cookie that scripts cannot read. */
export async function signIn(key: string): Promise<void> {
  await send("POST", { key });
  set(undefined);
}

/** Give the cookie back. */
export async function signOut(): Promise<void> {
  await send("DELETE");
}

/** Whether the server wants a key from whoever looks at the page; the sign-in dialog answers it. */
import { useSyncExternalStore } from "react";

import type { Problem } from "./problem";

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

/** The key was given. */
export function haveKey(): void {
  set(undefined);
}

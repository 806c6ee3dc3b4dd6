/** What is being written in each conversation, for as long as the page is open. */
import { useSyncExternalStore } from "react";

const drafts = new Map<string, string>();
const listeners = new Set<() => void>();

export function setDraft(place: string, text: string): void {
  drafts.set(place, text);
  for (const listener of listeners) listener();
}

export function useDraft(place: string): [string, (text: string) => void] {
  const text = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => drafts.get(place) ?? "",
  );
  return [text, (wanted) => setDraft(place, wanted)];
}

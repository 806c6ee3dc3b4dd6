/** What is being written in each conversation, kept in this browser until it is sent: over a reload, and when it is closed. */
import { useSyncExternalStore } from "react";

const KEY = "skillyard-drafts";
const MOST = 30; // conversations, those written in last
const LONGEST = 100_000; // characters of one that is kept

let drafts: ReadonlyMap<string, string> = new Map(kept());
const listeners = new Set<() => void>();

function kept(): [string, string][] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    if (!Array.isArray(found)) return [];
    return found.flatMap((one: unknown) => (Array.isArray(one) && typeof one[0] === "string" && typeof one[1] === "string" ? [[one[0], one[1]] as [string, string]] : []));
  } catch {
    return [];
  }
}

function put(next: ReadonlyMap<string, string>): void {
  drafts = next;
  for (const listener of listeners) listener();
}

export function setDraft(place: string, text: string): void {
  const next = new Map([...kept(), ...drafts]);
  next.delete(place);
  if (text) next.set(place, text);
  put(next);
  try {
    localStorage.setItem(KEY, JSON.stringify([...next].filter(([, one]) => one.length <= LONGEST).slice(-MOST)));
  } catch {
    // a browser that keeps nothing, or a full storage: it lives as long as the page
  }
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

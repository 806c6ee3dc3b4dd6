/** Which notifications of the browser are wanted: kept in this browser, and only shown where the person has allowed them. */
import { useSyncExternalStore } from "react";

export const NEWS = ["approvals", "failures", "updates"] as const;
export type News = (typeof NEWS)[number];

const KEY = "skillyard-notifications";
const listeners = new Set<() => void>();

/** What is written there, as far as it is known. */
export function wantedOf(text: string | null): readonly News[] {
  const named = text?.split(",") ?? [];
  return NEWS.filter((kind) => named.includes(kind));
}

/** Null where the browser keeps nothing. */
function kept(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

export function want(kinds: readonly News[]): void {
  try {
    if (kinds.length > 0) localStorage.setItem(KEY, kinds.join(","));
    else localStorage.removeItem(KEY);
  } catch {
    // a browser that keeps nothing
  }
  for (const listener of listeners) listener();
}

function listen(listener: () => void): () => void {
  listeners.add(listener);
  window.addEventListener("storage", listener); // another window of this page
  return () => {
    listeners.delete(listener);
    window.removeEventListener("storage", listener);
  };
}

export const useWanted = (): readonly News[] => wantedOf(useSyncExternalStore(listen, kept));

/** Whether they may be shown: "missing" where the browser has none, as without https. */
export const permission = (): NotificationPermission | "missing" => ("Notification" in window ? Notification.permission : "missing");

/** Show one; a click on it goes where it is about. False where the browser lets only service workers show them. */
export function show(title: string, body: string, tag: string, go: () => void): boolean {
  try {
    const shown = new Notification(title, { body, tag, icon: "/mark.svg" });
    shown.onclick = () => {
      window.focus();
      go();
      shown.close();
    };
    return true;
  } catch {
    return false;
  }
}

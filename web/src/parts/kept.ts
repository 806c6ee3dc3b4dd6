/** What is being written in a form, kept for as long as the tab of the browser is open: over a reload, and on other pages. */
import { useState } from "react";

const KEY = "skillyard-written:";
const MOST = 200_000; // characters; a storage holds some millions in all

/** What was written there, over what is there at first. */
export function written<T extends object>(place: string, first: T): T {
  try {
    const found: unknown = JSON.parse(sessionStorage.getItem(KEY + place) ?? "null");
    if (typeof found !== "object" || found === null || Array.isArray(found)) return first;
    const fitting = Object.entries(found).filter(([name, value]) => name in first && sameKind(first[name as keyof T], value));
    return { ...first, ...Object.fromEntries(fitting) };
  } catch {
    return first;
  }
}

/** Keep it; what is too long for that, or has no storage, lives as long as the form. */
export function keepWritten(place: string, value: object): void {
  try {
    const text = JSON.stringify(value);
    if (text.length > MOST) sessionStorage.removeItem(KEY + place);
    else sessionStorage.setItem(KEY + place, text);
  } catch {
    // a browser that keeps nothing, or a full storage
  }
}

/** A state that survives the form, as far as it is `storable`; changed part by part. */
export function useWritten<T extends object>(place: string, first: () => T, storable: (value: T) => object = (value) => value): [T, (change: Partial<T>) => void] {
  const [value, setValue] = useState(() => written(place, first()));
  const change = (part: Partial<T>) =>
    setValue((before) => {
      const after = { ...before, ...part };
      keepWritten(place, storable(after));
      return after;
    });
  return [value, change];
}

const sameKind = (one: unknown, other: unknown): boolean => one === undefined || (typeof one === typeof other && Array.isArray(one) === Array.isArray(other));

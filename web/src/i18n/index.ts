/** The two languages of the page. Each page keeps its words beside itself, in both, and the types hold them complete. */
import { useSyncExternalStore } from "react";

export type Language = "en" | "zh";

/** What a table of words may hold: a text, or a function from values to a text. */
export type Said<M> = {
  readonly [K in keyof M]: M[K] extends (...values: infer V) => infer R
    ? (...values: V) => R
    : M[K] extends string
      ? string
      : Said<M[K]>;
};

export type Words<M> = Readonly<Record<Language, Said<M>>>;

/** Words in English, and the same in Chinese: what is missing or too much does not compile. */
export function words<M extends object>(en: M, zh: Said<M>): Words<M> {
  return { en: en as unknown as Said<M>, zh };
}

/** Words that are looked up by what the server says; it may say one that stands in no table. */
export const labels = (found: Record<string, string>): Record<string, string> => found;

const KEY = "skillyard-language";
const listeners = new Set<() => void>();
let current: Language = preferred();

function preferred(): Language {
  const kept = localStorage.getItem(KEY);
  if (kept === "en" || kept === "zh") return kept;
  return navigator.languages.some((one) => one.toLowerCase().startsWith("zh")) &&
    !navigator.languages[0]?.toLowerCase().startsWith("en")
    ? "zh"
    : "en";
}

function applyLanguage(): void {
  document.documentElement.lang = current === "zh" ? "zh-CN" : "en";
}

applyLanguage();

/** The language that is spoken now. */
export function language(): Language {
  return current;
}

/** Speak another language, now and on the next visit. */
export function speak(wanted: Language): void {
  current = wanted;
  localStorage.setItem(KEY, wanted);
  applyLanguage();
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useLanguage(): Language {
  return useSyncExternalStore(subscribe, language);
}

/** How the language that is spoken writes dates and lists. */
export const LOCALES: Readonly<Record<Language, string>> = { en: "en-GB", zh: "zh-CN" };

/** The words of a table in the language that is spoken. */
export function useText<M>(table: Words<M>): Said<M> {
  return table[useLanguage()];
}

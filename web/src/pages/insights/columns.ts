/** What the table of insights shows of each row, and in which order rows stand. */
import type { Dimension, Figures, InsightRow } from "@/api/insights";
import type { RunsSearch, TurnsSearch } from "@/app/search";
import { INTERFACES } from "@/api/runStates";
import { failedShare } from "@/parts/figures";

export type Column = "offered" | "loaded" | "followed" | "succeeded" | "runs" | "failed" | "p50" | "p95" | "turns" | "turnsFailed" | "tokens" | "cost" | "refused";

const RUN: readonly Column[] = ["runs", "failed", "p50", "p95"];
const TALK: readonly Column[] = ["turns", "turnsFailed", "tokens", "cost"];

/** What there is to say, by what rows are about. */
export const COLUMNS: Readonly<Record<Dimension, readonly Column[]>> = {
  skill: [...RUN, "offered", "loaded", "followed", "succeeded", "refused"],
  version: [...RUN, "refused"],
  agent: [...RUN, ...TALK, "loaded", "followed", "succeeded"],
  caller: [...RUN, ...TALK, "loaded", "followed", "succeeded"],
  interface: [...RUN, "refused"],
  model: TALK,
};

const VALUES: Readonly<Record<Column, (figures: Figures) => number | null | undefined>> = {
  offered: ({ offered }) => offered,
  loaded: ({ loaded }) => loaded,
  followed: ({ followed }) => followed,
  succeeded: ({ succeeded }) => succeeded,
  runs: ({ runs }) => runs,
  failed: failedShare,
  p50: ({ p50_ms }) => p50_ms,
  p95: ({ p95_ms }) => p95_ms,
  turns: ({ turns }) => turns,
  turnsFailed: ({ turns_failed }) => turns_failed,
  tokens: ({ input_tokens, output_tokens }) => input_tokens + output_tokens,
  cost: ({ cost }) => cost,
  refused: ({ refused }) => refused,
};

/** What a column says of a row; nothing where it says nothing. */
export const valueOf = (column: Column, figures: Figures): number | undefined => VALUES[column](figures) ?? undefined;

/** The rows of which one of these columns says anything. */
export const withFigures = (rows: readonly InsightRow[], columns: readonly Column[]): readonly InsightRow[] => rows.filter(({ figures }) => columns.some((column) => valueOf(column, figures)));

/** The rows by a column, or by their names; what has no value stands last, whichever way. */
export function ordered(rows: readonly InsightRow[], by: Column | "name" | undefined, up: boolean): readonly InsightRow[] {
  if (by === undefined) return rows;
  const way = up ? 1 : -1;
  if (by === "name") return rows.toSorted((one, other) => -way * one.key.localeCompare(other.key)); // A first, unless turned
  return rows.toSorted((one, other) => {
    const [first, second] = [valueOf(by, one.figures), valueOf(by, other.figures)];
    if (first === undefined || second === undefined) return Number(first === undefined) - Number(second === undefined);
    return way * (first - second);
  });
}

/** The runs that a row counts; nothing where no list of runs can be narrowed so. */
export function runsOf(by: Dimension, row: InsightRow, days: { since: string; until: string }, skill?: string): RunsSearch | undefined {
  if (!row.key) return undefined;
  const narrowed = { ...days, tests: false as const, ...(skill ? { skill } : {}) };
  switch (by) {
    case "skill":
      return { ...narrowed, skill: row.key };
    case "version":
      return { ...narrowed, version: row.key, ...(row.skill ? { skill: row.skill } : {}) };
    case "interface": {
      const found = INTERFACES.find((one) => one === row.key);
      return found && { ...days, ...(skill ? { skill } : {}), interface: found };
    }
    case "agent":
    case "caller":
      return { ...narrowed, [by]: row.key };
    case "model":
      return undefined;
  }
}

const STAGES = ["offered", "loaded", "followed", "succeeded", "refused"] as const;

/** The turns that a cell counts; nothing where it counts none, or those of other people alone. */
export function turnsOf(column: Column, by: Dimension, { key, skill: ofVersion }: InsightRow, days: { since: string; until: string }, skill?: string): TurnsSearch | undefined {
  const stage = STAGES.find((one) => one === column);
  const counted = stage ? { stage } : column === "turns" ? {} : column === "turnsFailed" ? { failed: true as const } : undefined;
  if (!counted || !key || by === "caller" || by === "version" || ofVersion) return undefined;
  const narrowed = { ...days, ...counted, ...(skill ? { skill } : {}) };
  if (by === "interface") return key === "chat" ? narrowed : undefined;
  return { ...narrowed, [by]: key };
}

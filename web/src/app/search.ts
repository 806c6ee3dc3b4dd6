/** What stands behind the `?` of an address: the pages read it, and the routes make it of what somebody has written there. */
import type { Narrowing } from "@/api/catalog";
import type { Stage, TurnNarrowing } from "@/api/chat";
import type { Dimension } from "@/api/insights";
import type { SearchWords } from "@/api/kept";
import { INTERFACES, RUN_STATES, type RunInterface, type RunState } from "@/api/runStates";

/** Over how many days figures can be seen. */
export const RANGES = [7, 14, 30, 90] as const;

const day = (value: unknown): string | undefined =>
  typeof value === "string" && /^\d{4}-\d\d-\d\d$/.test(value) && !Number.isNaN(Date.parse(value)) ? value : undefined;

const text = (value: unknown): string | undefined => (typeof value === "string" && value ? value : undefined);

/** What the list of skills is narrowed to; it stands in the address, so that it can be sent to somebody. */
export interface CatalogSearch {
  q?: string | undefined;
  source?: string | undefined;
  state?: string | undefined;
  /** The state of a skill: pinned, automatic, … */
  use?: string | undefined;
  tag?: string | undefined;
  /** Only those with a star of one's own. */
  starred?: true | undefined;
  /** Only those of a collection of one's own. */
  collection?: string | undefined;
  /** Only matches that are at least so sure. */
  least?: Confidence | undefined;
  /** Another order than by name, or than the nearest first. */
  sort?: CatalogOrder | undefined;
}

export type CatalogOrder = NonNullable<Narrowing["sort"]>;

export const CATALOG_ORDERS: readonly CatalogOrder[] = ["name", "used", "last_used", "tokens", "risk"];

/** The confidences from which matches can be asked for; from 0.5 one is sure. */
export const CONFIDENCES = [0.15, 0.3, 0.5, 0.7] as const;

export type Confidence = (typeof CONFIDENCES)[number];

/** The filters as the server knows them; what no filter knows is refused by it. */
export function narrowing({ q, source, state, use, tag, starred, collection, sort = q ? undefined : "name" }: CatalogSearch): Narrowing {
  return {
    ...(source ? { source: source as NonNullable<Narrowing["source"]> } : {}),
    ...(state ? { status: state as NonNullable<Narrowing["status"]> } : {}),
    ...(use ? { state: use as NonNullable<Narrowing["state"]> } : {}),
    ...(tag ? { tag } : {}),
    ...(starred ? { starred } : {}),
    ...(collection ? { collection } : {}),
    ...(sort ? { sort } : {}),
  };
}

/** A search as it is saved; nothing where there is no word, no filter and no order. */
export function searchWords({ q, sort, least, ...filters }: CatalogSearch): SearchWords | undefined {
  const words = { ...narrowing({ ...filters, q: "-", sort }), ...(q ? { q } : {}), ...(least ? { min_confidence: least } : {}) };
  return Object.keys(words).length > 0 ? (words as SearchWords) : undefined;
}

/** What a saved search means in the address. */
export const fromWords = ({ q, source, status, state, tag, starred, collection, min_confidence, sort }: SearchWords): CatalogSearch => ({
  q: q ?? undefined,
  source: source ?? undefined,
  state: status ?? undefined,
  use: state ?? undefined,
  tag: tag ?? undefined,
  starred: starred ?? undefined,
  collection: collection ?? undefined,
  least: CONFIDENCES.find((one) => one === min_confidence),
  sort: sort ?? undefined,
});

export const catalogSearch = (found: Record<string, unknown>): CatalogSearch => ({
  q: text(found.q),
  source: text(found.source),
  state: text(found.state),
  use: text(found.use),
  tag: text(found.tag),
  starred: found.starred === true || undefined,
  collection: text(found.collection),
  least: CONFIDENCES.find((one) => one === found.least),
  sort: CATALOG_ORDERS.find((one) => one === found.sort),
});

/** Which part of a skill is looked at. */
export interface SkillSearch {
  tab?: string | undefined;
  file?: string | undefined;
  line?: number | undefined;
  /** Two versions that are compared. */
  before?: string | undefined;
  after?: string | undefined;
  /** The tests that are looked at: a run. */
  run?: string | undefined;
  /** Over how many days its use is shown. */
  days?: number | undefined;
}

export const skillSearch = (found: Record<string, unknown>): SkillSearch => ({
  tab: text(found.tab),
  file: text(found.file),
  line: typeof found.line === "number" && found.line > 0 ? Math.trunc(found.line) : undefined,
  before: text(found.before),
  after: text(found.after),
  run: text(found.run),
  days: RANGES.find((days) => days === found.days),
});

/** What the list of runs is narrowed to. */
export interface RunsSearch {
  skill?: string | undefined;
  state?: RunState | undefined;
  schedule?: string | undefined;
  interface?: RunInterface | undefined;
  caller?: string | undefined;
  agent?: string | undefined;
  version?: string | undefined;
  /** The first and the last day, of UTC. */
  since?: string | undefined;
  until?: string | undefined;
  /** Without tests of skills, as insights count. */
  tests?: false | undefined;
}

/** How the list of runs is shown beside that. */
export interface RunListSearch extends RunsSearch {
  /** Every run in a row of its own; else those of one schedule are together. */
  each?: true | undefined;
  /** The schedules whose runs are shown below their row. */
  open?: readonly string[] | undefined;
}

/** The filters of a list, without how it is shown. */
export const runsSearch = (found: Record<string, unknown>): RunsSearch => ({
  skill: text(found.skill),
  state: RUN_STATES.find((state) => state === found.state),
  schedule: text(found.schedule),
  interface: INTERFACES.find((one) => one === found.interface),
  caller: text(found.caller),
  agent: text(found.agent),
  version: text(typeof found.version === "number" ? String(found.version) : found.version), // 1.0 in an address is read as a number
  since: day(found.since),
  until: day(found.until),
  tests: found.tests === false ? false : undefined,
});

export const runListSearch = (found: Record<string, unknown>): RunListSearch => {
  const open = Array.isArray(found.open) ? found.open.flatMap((name: unknown) => text(name) ?? []).slice(0, 20) : [];
  return { ...runsSearch(found), each: found.each === true || undefined, open: open.length ? open : undefined };
};

/** Two runs side by side, as far as they are chosen. */
export interface CompareSearch {
  one?: string | undefined;
  other?: string | undefined;
  /** Only what is different. */
  different?: true | undefined;
}

export const compareSearch = (found: Record<string, unknown>): CompareSearch => ({
  one: text(found.one),
  other: text(found.other),
  different: found.different === true || undefined,
});

/** Which turns of chats are listed: those that a figure counts. */
export type TurnsSearch = TurnNarrowing;

export const STAGES: readonly Stage[] = ["offered", "loaded", "followed", "succeeded", "refused"];

export const turnsSearch = (found: Record<string, unknown>): TurnsSearch => ({
  skill: text(found.skill),
  stage: STAGES.find((stage) => stage === found.stage),
  agent: text(found.agent),
  model: text(found.model),
  failed: found.failed === true || undefined,
  since: day(found.since),
  until: day(found.until),
});

/** The number of the turn of a conversation that is looked at. */
export interface ChatSearch {
  turn?: number | undefined;
}

export const chatSearch = (found: Record<string, unknown>): ChatSearch => ({ turn: typeof found.turn === "number" && found.turn > 0 ? Math.trunc(found.turn) : undefined });

/** What of the audit log is shown. */
export interface AuditSearch {
  /** Words in who, what, on what or where from. */
  q?: string | undefined;
  actor?: string | undefined;
  action?: string | undefined;
  subject?: string | undefined;
  outcome?: "success" | "failed" | "refused" | undefined;
  /** The first and the last day, of UTC. */
  since?: string | undefined;
  until?: string | undefined;
}

export const auditSearch = (found: Record<string, unknown>): AuditSearch => ({
  q: text(found.q),
  actor: text(found.actor),
  action: text(found.action),
  subject: text(found.subject),
  outcome: (["success", "failed", "refused"] as const).find((one) => one === found.outcome),
  since: day(found.since),
  until: day(found.until),
});

/** What insights are about, over how many days, and in which order. */
export interface InsightSearch {
  by?: Dimension | undefined;
  days?: number | undefined;
  sort?: string | undefined;
  /** The smallest first. */
  up?: true | undefined;
  /** Only what was offered and never used. */
  unused?: true | undefined;
  skill?: string | undefined;
}

const BY: readonly Dimension[] = ["version", "agent", "caller", "interface", "model"]; // beside skill, which needs not be said

export const insightSearch = (found: Record<string, unknown>): InsightSearch => ({
  by: BY.find((one) => one === found.by),
  days: RANGES.find((days) => days === found.days),
  sort: text(found.sort),
  up: found.up === true || undefined,
  unused: found.unused === true || undefined,
  skill: text(found.skill),
});

/** Whether a schedule is being made, of which skill when that is chosen. */
export interface SchedulesSearch {
  add?: string | true | undefined;
}

/** Whether one schedule is being changed. */
export interface ScheduleSearch {
  edit?: true | undefined;
}

export const scheduleSearch = (found: Record<string, unknown>): ScheduleSearch => ({ edit: found.edit === true || undefined });

export const schedulesSearch = (found: Record<string, unknown>): SchedulesSearch => ({ add: found.add === true || text(found.add) });

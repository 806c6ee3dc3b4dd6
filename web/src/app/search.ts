/** What stands behind the `?` of an address: the pages read it, and the routes make it of what somebody has written there. */
import type { Narrowing } from "@/api/catalog";
import { RUN_STATES, type RunState } from "@/api/runStates";

const text = (value: unknown): string | undefined => (typeof value === "string" && value ? value : undefined);

/** What the list of skills is narrowed to; it stands in the address, so that it can be sent to somebody. */
export interface CatalogSearch {
  q?: string | undefined;
  source?: string | undefined;
  state?: string | undefined;
  tag?: string | undefined;
}

/** The filters as the server knows them; what no filter knows is refused by it. */
export function narrowing({ source, state, tag }: CatalogSearch): Narrowing {
  return {
    ...(source ? { source: source as NonNullable<Narrowing["source"]> } : {}),
    ...(state ? { status: state as NonNullable<Narrowing["status"]> } : {}),
    ...(tag ? { tag } : {}),
  };
}

export const catalogSearch = (found: Record<string, unknown>): CatalogSearch => ({
  q: text(found.q),
  source: text(found.source),
  state: text(found.state),
  tag: text(found.tag),
});

/** Which part of a skill is looked at. */
export interface SkillSearch {
  tab?: string | undefined;
  file?: string | undefined;
  line?: number | undefined;
}

export const skillSearch = (found: Record<string, unknown>): SkillSearch => ({
  tab: text(found.tab),
  file: text(found.file),
  line: typeof found.line === "number" && found.line > 0 ? Math.trunc(found.line) : undefined,
});

/** What the list of runs is narrowed to. */
export interface RunsSearch {
  skill?: string | undefined;
  state?: RunState | undefined;
  schedule?: string | undefined;
}

export const runsSearch = (found: Record<string, unknown>): RunsSearch => ({
  skill: text(found.skill),
  state: RUN_STATES.find((state) => state === found.state),
  schedule: text(found.schedule),
});

/** Whether a schedule is being made, of which skill when that is chosen. */
export interface SchedulesSearch {
  add?: string | true | undefined;
}

export const schedulesSearch = (found: Record<string, unknown>): SchedulesSearch => ({ add: found.add === true || text(found.add) });

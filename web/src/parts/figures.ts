/** What figures say: which skill gets worse, which fails now, how high an axis is. */
import type { Figures, InsightRow } from "@/api/insights";
import type { RunSummary } from "@/api/runs";

/** The share of runs that did not succeed, of those that ended by themselves; nothing without one. */
export function failedShare({ runs_succeeded, runs_failed }: Figures): number | undefined {
  const ended = runs_succeeded + runs_failed;
  return ended > 0 ? runs_failed / ended : undefined;
}

/** A skill that does worse than in the time before: it fails more often, or takes longer. */
export interface Decline {
  skill: string;
  kind: "fails" | "slow";
  before: number;
  after: number;
}

const ENOUGH = 8; // runs in each time, below which chance says more
const MORE_FAILURES = 0.1;
const SLOWER = 1.4;
const FELT_MS = 150;

/** The skills that do worse than before, the worst first. */
export function declines(now: readonly InsightRow[], then: readonly InsightRow[]): Decline[] {
  const earlier = new Map(then.map(({ key, figures }) => [key, figures]));
  return now
    .flatMap(({ key, figures }): [number, Decline][] => {
      const old = earlier.get(key);
      if (!old || old.runs < ENOUGH || figures.runs < ENOUGH) return [];
      const [was, is] = [failedShare(old) ?? 0, failedShare(figures) ?? 0];
      if (is - was >= MORE_FAILURES) return [[is - was, { skill: key, kind: "fails", before: was, after: is }]];
      const [slow, slower] = [old.p95_ms ?? 0, figures.p95_ms ?? 0];
      if (slow > 0 && slower >= slow * SLOWER && slower - slow >= FELT_MS) return [[-slow / slower, { skill: key, kind: "slow", before: slow, after: slower }]];
      return [];
    })
    .toSorted(([one], [other]) => other - one)
    .map(([, decline]) => decline);
}

/** Runs of one skill that failed and after which none succeeded. */
export interface Failing {
  skill: string;
  name: string;
  /** The newest. */
  last: RunSummary;
  count: number;
}

/** The skills whose newest run failed, the latest first; both lists are the newest first. */
export function failing(failed: readonly RunSummary[], succeeded: readonly RunSummary[]): Failing[] {
  const well = new Map<string, string>();
  for (const { skill, created_at } of succeeded) if (!well.has(skill)) well.set(skill, created_at);
  const found = new Map<string, Failing>();
  for (const run of failed) {
    if (run.created_at <= (well.get(run.skill) ?? "")) continue;
    const known = found.get(run.skill);
    if (known) known.count += 1;
    else found.set(run.skill, { skill: run.skill, name: run.skill_name, last: run, count: 1 });
  }
  return [...found.values()];
}

/** The name of a skill without the source that its id begins with. */
export const skillName = (id: string): string => id.replace(/^[\w-]+:/, "");

/** A caller as people are called: without the server's own organisation. */
export const callerName = (id: string): string => id.replace(/^default\//, "");

/** How high an axis goes for counts up to `most`: an even number that is easily read. */
export function axisTop(most: number): number {
  const unit = 10 ** Math.max(0, Math.floor(Math.log10(Math.max(1, most))));
  return ([1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10].find((step) => step * unit >= most && (step * unit) % 2 === 0) ?? 10) * unit;
}

import { expect, test } from "vitest";

import type { Figures, InsightRow } from "@/api/insights";
import type { RunSummary } from "@/api/runs";
import { chatSearch, insightSearch, runsSearch, turnsSearch } from "@/app/search";
import { COLUMNS, ordered, runsOf, withFigures, turnsOf, valueOf } from "@/pages/insights/columns";
import { axisTop, callerName, declines, failedShare, failing } from "@/parts/figures";

const NOTHING: Figures = {
  offered: 0, loaded: 0, followed: 0, succeeded: 0, runs: 0, runs_succeeded: 0, runs_failed: 0, runs_cancelled: 0, runs_cached: 0,
  refused: 0, turns: 0, turns_failed: 0, input_tokens: 0, output_tokens: 0, p50_ms: null, p95_ms: null, cost: null,
}; // prettier-ignore

const row = (key: string, figures: Partial<Figures>, skill: string | null = null): InsightRow => ({ key, skill, figures: { ...NOTHING, ...figures }, periods: [] });
const ran = (key: string, good: number, bad: number, p95_ms = 100): InsightRow => row(key, { runs: good + bad, runs_succeeded: good, runs_failed: bad, p95_ms });
const run = (skill: string, at: string): RunSummary => ({ run_id: `run_${skill}_${at}`, skill, skill_name: skill, created_at: at }) as RunSummary;

test("a skill gets worse when it fails more often or takes longer, with enough runs to know", () => {
  const then = [ran("a", 20, 0), ran("b", 20, 0, 1_000), ran("few", 3, 0), ran("same", 20, 1), ran("tiny", 20, 0, 10), ran("worst", 20, 0)];
  const now = [ran("a", 16, 4), ran("b", 20, 0, 2_100), ran("few", 0, 3), ran("same", 20, 1), ran("tiny", 20, 0, 30), ran("worst", 5, 15), ran("new", 0, 20)];
  expect(declines(now, then)).toEqual([
    { skill: "worst", kind: "fails", before: 0, after: 0.75 },
    { skill: "a", kind: "fails", before: 0, after: 0.2 },
    { skill: "b", kind: "slow", before: 1_000, after: 2_100 },
  ]);
});

test("a skill fails now when nothing succeeded after its last failures", () => {
  const failed = [run("bad", "2026-05-03"), run("cured", "2026-05-02"), run("bad", "2026-05-01")];
  const found = failing(failed, [run("cured", "2026-05-03"), run("bad", "2026-04-01")]);
  expect(found.map(({ skill, count, last }) => [skill, count, last.created_at])).toEqual([["bad", 2, "2026-05-03"]]);
  expect(failing([], [])).toEqual([]);
});

test("an axis ends at an even number that is not below the highest bar", () => {
  expect([0, 1, 2, 3, 11, 31, 60, 101, 9_999].map(axisTop)).toEqual([2, 2, 2, 4, 12, 40, 60, 120, 10_000]);
  for (let most = 1; most < 3_000; most += 7) {
    expect(axisTop(most)).toBeGreaterThanOrEqual(most);
    expect(axisTop(most) % 2).toBe(0);
  }
});

test("rows stand by a column, and those that say nothing of it stand last", () => {
  const rows = [ran("b", 1, 1), row("none", {}), ran("a", 4, 0), ran("c", 0, 2)];
  expect(ordered(rows, "failed", false).map(({ key }) => key)).toEqual(["c", "b", "a", "none"]);
  expect(ordered(rows, "failed", true).map(({ key }) => key)).toEqual(["a", "b", "c", "none"]);
  expect(ordered(rows, "name", false).map(({ key }) => key)).toEqual(["a", "b", "c", "none"]);
  expect(ordered(rows, undefined, false)).toBe(rows);
  expect(failedShare(NOTHING)).toBeUndefined();
  for (const columns of Object.values(COLUMNS)) for (const column of columns) expect(valueOf(column, NOTHING) ?? 0).toBe(0);
});

test("each row leads to its runs, and the address says which", () => {
  const days = { since: "2026-05-01", until: "2026-05-14" };
  const counted = { ...days, tests: false };
  expect(runsOf("skill", row("user:pdf", {}), days)).toEqual({ ...counted, skill: "user:pdf" });
  expect(runsOf("version", row("1.10", {}, "user:pdf"), days)).toEqual({ ...counted, skill: "user:pdf", version: "1.10" });
  expect(runsOf("caller", row("ada", {}), days, "user:pdf")).toEqual({ ...counted, skill: "user:pdf", caller: "ada" });
  expect(runsOf("interface", row("smoke signals", {}), days)).toBeUndefined();
  expect(runsOf("agent", row("", {}), days)).toBeUndefined();
  expect(runsOf("model", row("gpt", {}), days)).toBeUndefined();
  expect(runsSearch({ ...days, interface: "cli", version: 2, state: "nonsense", until: "2026-99-01" })).toMatchObject({ since: "2026-05-01", until: undefined, interface: "cli", version: "2", state: undefined });
  expect(insightSearch({ by: "agent", days: 90, up: "yes", unused: true })).toMatchObject({ by: "agent", days: 90, up: undefined, unused: true });
  expect(insightSearch({ by: "nobody", days: 3 })).toMatchObject({ by: undefined, days: undefined });
});

test("a figure of chats leads to the turns that it counts, and none of other people", () => {
  const days = { since: "2026-05-01", until: "2026-05-14" };
  expect(turnsOf("loaded", "skill", row("user:pdf", {}), days)).toEqual({ ...days, stage: "loaded", skill: "user:pdf" });
  expect(turnsOf("turnsFailed", "model", row("gpt", {}), days, "user:pdf")).toEqual({ ...days, failed: true, model: "gpt", skill: "user:pdf" });
  expect(turnsOf("turns", "agent", row("Editor", {}), days)).toEqual({ ...days, agent: "Editor" });
  expect(turnsOf("refused", "interface", row("chat", {}), days)).toEqual({ ...days, stage: "refused" });
  expect(turnsOf("refused", "interface", row("cli", {}), days)).toBeUndefined();
  expect(turnsOf("turns", "caller", row("ada", {}), days)).toBeUndefined();
  expect(turnsOf("loaded", "agent", row("", {}), days)).toBeUndefined();
  expect(turnsOf("p95", "skill", row("user:pdf", {}), days)).toBeUndefined();
  expect(turnsSearch({ ...days, stage: "adored", failed: "yes", agent: "Editor" })).toMatchObject({ ...days, stage: undefined, failed: undefined, agent: "Editor" });
  expect([chatSearch({ turn: 3.5 }), chatSearch({ turn: -1 }), chatSearch({ turn: "3" })]).toEqual([{ turn: 3 }, { turn: undefined }, { turn: undefined }]);
});

test("a caller is called without the organisation that the server has of itself", () => {
  expect(["default/local user", "acme/ada", "schedule"].map(callerName)).toEqual(["local user", "acme/ada", "schedule"]);
});

test("a row of which no column says anything is left out", () => {
  const rows = [row("", { runs: 4 }), row("openai:gpt-5", { turns: 2 }), row("quiet", { cost: 0 })];
  expect(withFigures(rows, COLUMNS.model).map(({ key }) => key)).toEqual(["openai:gpt-5"]);
  expect(withFigures(rows, ["runs"]).map(({ key }) => key)).toEqual([""]);
});

/** Two runs beside each other, and the bars of a chart of runs. */
import { expect, test } from "vitest";

import { differs, leaves, pairs } from "@/pages/run/comparing";
import { barsOf, charted } from "@/pages/runs/RunChart";

test("a value falls into its leaves, each under its path", () => {
  const found = leaves({ text: "a", rows: [{ n: 1 }, { n: null }], none: {}, empty: [] });
  expect([...found]).toEqual([
    ["text", "a"],
    ["rows[0].n", "1"],
    ["rows[1].n", "null"],
    ["none", "{}"],
    ["empty", "[]"],
  ]);
  expect([...leaves("plain")]).toEqual([["", "plain"]]);
  expect(leaves(null).size).toBe(0);
});

test("what has very many leaves is compared as a whole", () => {
  const many = { all: Array.from({ length: 50 }, (_, number) => number), last: 1 };
  expect([...leaves(many, 10).keys()]).toEqual(["all", "last"]);
});

test("leaves of two values stand beside each other, and what one lacks is a difference", () => {
  const found = pairs({ a: 1, b: [1] }, { b: [1, 2], a: 1 });
  expect(found.map(({ name, one, other }) => [name, one, other])).toEqual([
    ["a", "1", "1"],
    ["b[0]", "1", "1"],
    ["b[1]", undefined, "2"],
  ]);
  expect(found.filter(differs).map(({ name }) => name)).toEqual(["b[1]"]);
});

test("a chart shows two weeks at least, and a bar narrows the list to its days", () => {
  expect(charted({ since: "2026-05-20", until: "2026-05-20" })).toEqual({ since: "2026-05-07", until: "2026-05-20" });
  expect(charted({ since: "2026-01-01", until: "2026-05-20" }).since).toBe("2026-01-01");
  const none = { succeeded: 0, failed: 0, interrupted: 0, cancelled: 0, open: 0 };
  const periods = [
    { ...none, day: "2026-05-06", succeeded: 3, failed: 1, interrupted: 1, open: 2 },
    { ...none, day: "2026-05-13", cancelled: 1 },
  ];
  const bars = barsOf({ periods, until: "2026-05-19" }, { skill: "pdf", open: ["x"], since: "2026-05-13", until: "2026-05-19" }, (day) => day);
  expect(bars.map(({ counts }) => counts)).toEqual([
    [3, 2, 2],
    [0, 0, 1],
  ]);
  expect(bars[0]?.runs).toEqual({ skill: "pdf", open: undefined, since: "2026-05-06", until: "2026-05-12" });
});

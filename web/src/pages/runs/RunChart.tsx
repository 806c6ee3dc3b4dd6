/** How the runs of the list ended over time: a bar for each day leads to its runs. */
import { Group, Paper, Skeleton, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useId } from "react";

import { daysAgo, laterBy } from "@/api/insights";
import { type RunCounts, type RunNarrowing, runCountsQuery } from "@/api/runs";
import type { RunListSearch } from "@/app/search";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { type Bar, Bars } from "@/parts/Bars";
import { Loaded } from "@/parts/Loaded";

import { runs } from "./words";

const DAYS = 14; // at least: one day alone says little
const HEIGHT = 72;

/** The days that the chart shows for those that the list shows: enough of them to compare. */
export function charted({ since, until }: Pick<RunNarrowing, "since" | "until">): { since: string; until: string } {
  const last = until ?? daysAgo(0);
  const first = laterBy(1 - DAYS, last);
  return { since: since !== undefined && since < first ? since : first, until: last };
}

/** The bars of counts: what succeeded, what failed or was cut off, and the rest. */
export function barsOf({ periods, until }: Pick<RunCounts, "periods" | "until">, chosen: RunListSearch, label: (day: string) => string): Bar[] {
  return periods.map(({ day, succeeded, failed, interrupted, cancelled, open }, index) => {
    const next = periods[index + 1]?.day;
    const end = next === undefined ? until : laterBy(-1, next);
    return {
      label: label(day),
      counts: [succeeded, failed + interrupted, cancelled + open],
      runs: { ...chosen, open: undefined, since: day, until: end },
    };
  });
}

export function RunChart({ chosen, narrowing }: { chosen: RunListSearch; narrowing: RunNarrowing }) {
  const t = useText(runs);
  const format = useFormat();
  const id = useId();
  const query = useQuery(runCountsQuery({ ...narrowing, ...charted(chosen) }));
  return (
    <Paper component="section" aria-labelledby={id} px="md" py="sm" miw={0}>
      <Group gap="sm" align="baseline" mb={6}>
        <Title order={2} id={id} size="h4">
          {t.chart}
        </Title>
        <Text size="sm" c="dimmed" component="span">
          {query.data && <Share counts={query.data} />}
        </Text>
      </Group>
      <Loaded query={query} skeleton={<Skeleton h={HEIGHT + 58} />}>
        {(found) => (
          <Bars
            label={t.chart}
            parts={[
              { name: t.states.succeeded, colour: "good", state: "succeeded" },
              { name: t.states.failed, colour: "bad", state: "failed" },
              { name: t.otherwise, colour: "other" },
            ]}
            bars={barsOf(found, chosen, format.day)}
            height={HEIGHT}
          />
        )}
      </Loaded>
    </Paper>
  );
}

function Share({ counts: { periods } }: { counts: RunCounts }) {
  const t = useText(runs);
  const format = useFormat();
  const failed = periods.reduce((all, one) => all + one.failed + one.interrupted, 0);
  const ended = periods.reduce((all, one) => all + one.succeeded, failed);
  return <>{ended > 0 && t.failedOf(failed, format.number(failed), format.number(ended))}</>;
}

/** The runs of one schedule as one row: its newest, how many there are, and the others below it where it is open. */
import { ActionIcon, Box, Text, Tooltip } from "@mantine/core";
import { IconCalendarRepeat, IconChevronRight } from "@tabler/icons-react";
import { useQueries } from "@tanstack/react-query";
import type { ReactNode } from "react";

import { type ListedRun, newestRunsQuery, type RunNarrowing } from "@/api/runs";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { visible } from "@/parts/foreign";
import { AnchorLink } from "@/parts/links";

import classes from "./RunRow.module.css";
import { RunStateBadge } from "./RunStateBadge";
import { RunPlace, RunRow } from "./RunRow";
import { runs } from "./words";

/** How many runs an open row shows; a link leads to all of them. */
const SHOWN = 20;

interface Props {
  run: ListedRun;
  open: boolean;
  toggle: () => void;
}

export function ScheduleFold({ run, open, toggle }: Props) {
  const t = useText(runs);
  const format = useFormat();
  const name = visible(run.schedule ?? "");
  const label = open ? t.foldShut(name) : t.foldOpen(name);
  return (
    <Box className={classes.row} data-fold>
      <Box className={classes.state}>
        <RunStateBadge state={run.state} />
      </Box>
      <button type="button" className={classes.toggle} aria-expanded={open} aria-label={label} onClick={toggle}>
        <Box className={classes.what}>
          <Text fw={600} size="sm" truncate>
            <IconCalendarRepeat size={14} className={classes.mark ?? ""} aria-hidden /> <bdi>{name}</bdi>
          </Text>
          <Text size="xs" c="dimmed" truncate>
            {t.folded(run.runs, format.number(run.runs))}
            {run.failures ? (
              <Text span inherit className={classes.failures ?? ""}>
                {" · "}
                {t.foldedFailures(format.number(run.failures))}
              </Text>
            ) : null}
            {" · "}
            <bdi>{run.skill_name}</bdi>
          </Text>
        </Box>
      </button>
      <Tooltip label={format.time(run.created_at)}>
        <Text size="sm" c="dimmed" className={classes.when ?? ""}>
          {format.ago(run.created_at)}
        </Text>
      </Tooltip>
      <ActionIcon size="sm" aria-hidden tabIndex={-1} onClick={toggle}>
        <IconChevronRight size={16} className={classes.chevron ?? ""} data-open={open || undefined} />
      </ActionIcon>
    </Box>
  );
}

/** The rows below each open schedule, by its name. */
export function useFolded(open: readonly string[], narrowing: RunNarrowing): Map<string, readonly ReactNode[]> {
  const t = useText(runs);
  const format = useFormat();
  const found = useQueries({ queries: open.map((schedule) => newestRunsQuery({ ...narrowing, schedule }, SHOWN)) });
  return new Map(
    open.map((schedule, index) => {
      const query = found[index];
      if (!query?.data) return [schedule, query?.isError ? [] : [<RunPlace key="place" />]];
      const { data, meta } = query.data;
      const rows: ReactNode[] = data.map((run) => <RunRow key={run.run_id} run={run} within />);
      if (meta.total > data.length)
        rows.push(
          <Box key="all" className={classes.row} data-within>
            <AnchorLink to="/runs" search={{ ...narrowing, schedule }} size="sm">
              {t.foldAll(format.number(meta.total), visible(schedule))}
            </AnchorLink>
          </Box>,
        );
      return [schedule, rows];
    }),
  );
}

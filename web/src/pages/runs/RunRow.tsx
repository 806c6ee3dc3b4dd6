/** One run in the list. */
import { Badge, Box, Skeleton, Text, Tooltip } from "@mantine/core";
import { Link, type LinkProps } from "@tanstack/react-router";

import type { RunSummary } from "@/api/runs";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { callerName } from "@/parts/figures";
import { visible } from "@/parts/foreign";

import classes from "./RunRow.module.css";
import { RunStateBadge } from "./RunStateBadge";
import { runs } from "./words";

/** How high a row is, in pixels. */
export const ROW = 58;

interface Props {
  run: RunSummary;
  /** Where it leads; else to the run itself. */
  to?: LinkProps;
  /** It stands below the row of its schedule. */
  within?: boolean;
  /** There is no room for where it came from. */
  brief?: boolean;
}

export function RunRow({ run, to, within = false, brief = false }: Props) {
  const t = useText(runs);
  const format = useFormat();
  const from = run.interface && (t.interfaces[run.interface] ?? run.interface);
  const who = visible(run.agent ?? run.schedule ?? callerName(run.caller ?? ""));
  const origin = brief ? "" : [from, who].filter(Boolean).join(" · ");
  return (
    <Link {...(to ?? { to: "/runs/$id", params: { id: run.run_id } })} className={classes.row} data-within={within || undefined}>
      <Box className={classes.state}>
        <RunStateBadge state={run.state} />
      </Box>
      <Box className={classes.what}>
        <Text fw={600} size="sm" truncate>
          <bdi>{run.skill_name}</bdi>
        </Text>
        <Text size="xs" c="dimmed" truncate className={classes.remark ?? ""}>
          {run.error ? (
            <bdi>{visible(run.error.message ?? run.error.code)}</bdi>
          ) : origin ? (
            <>
              <Box component="bdi" visibleFrom="sm">
                {run.run_id}
              </Box>
              <Box component="bdi" hiddenFrom="sm">
                {origin} · {run.run_id}
              </Box>
            </>
          ) : (
            <bdi>{run.run_id}</bdi>
          )}
        </Text>
      </Box>
      {!brief && (
        <Box className={classes.origin} visibleFrom="sm">
          <Text size="sm" truncate>
            {from}
          </Text>
          <Text size="xs" c="dimmed" truncate>
            <bdi>{who}</bdi>
          </Text>
        </Box>
      )}
      {run.cache_hit && (
        <Tooltip label={t.keptWhy}>
          <Badge color="gray" visibleFrom="sm">
            {t.kept}
          </Badge>
        </Tooltip>
      )}
      <Text size="sm" c="dimmed" className={classes.took ?? ""} visibleFrom="xs">
        {run.duration_ms === null ? "" : format.duration(run.duration_ms)}
      </Text>
      <Tooltip label={format.time(run.created_at)}>
        <Text size="sm" c="dimmed" className={classes.when ?? ""}>
          {format.ago(run.created_at)}
        </Text>
      </Tooltip>
    </Link>
  );
}

export function RunPlace() {
  return (
    <Box className={classes.row}>
      <Skeleton h={18} w={96} className={classes.state ?? ""} />
      <Box className={classes.what}>
        <Skeleton h={12} w="30%" mb={8} />
        <Skeleton h={10} w="44%" />
      </Box>
    </Box>
  );
}

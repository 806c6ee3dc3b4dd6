/** One schedule in the list: what runs when, the next time, the last run, and what can be done. */
import { ActionIcon, Box, Group, Menu, Skeleton, Text } from "@mantine/core";
import { IconDots, IconHistory, IconPencil, IconPlayerPlay, IconTrash } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";

import type { Schedule } from "@/api/schedules";
import { useMay } from "@/api/scopes";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { visible } from "@/parts/foreign";
import { AnchorLink } from "@/parts/links";

import { RunStateBadge } from "../runs/RunStateBadge";
import { CHANGES } from "./changing";
import { Next } from "./Next";
import classes from "./ScheduleRow.module.css";
import { standing, useWhen } from "./when";
import { schedules } from "./words";

/** How high a row is, in pixels. */
export const ROW = 64;

interface Props {
  schedule: Schedule;
  /** Let it rest, go on, or go on for whoever asks: as it stands. */
  act: () => void;
  run: () => void;
  remove: () => void;
}

export function ScheduleRow({ schedule, act, run, remove }: Props) {
  const when = useWhen();
  const runs = useMay("runs:execute");
  return (
    <Box className={classes.row}>
      <Box className={classes.what}>
        <AnchorLink to="/schedules/$name" params={{ name: schedule.name }} size="sm" truncate className={classes.name}>
          <bdi>{visible(schedule.name)}</bdi>
        </AnchorLink>
        <Text size="xs" c="dimmed" truncate>
          <bdi>{[when(schedule), schedule.time_zone, visible(schedule.skill.replace(/^[\w-]+:/, ""))].join(" · ")}</bdi>
        </Text>
      </Box>
      <Box className={classes.last}>
        <Last schedule={schedule} />
      </Box>
      <Box className={classes.next}>
        <Next schedule={schedule} />
      </Box>
      {runs && <Acts schedule={schedule} act={act} run={run} remove={remove} />}
    </Box>
  );
}

function Last({ schedule: { last_run: id, last_at: at, last_state: state } }: { schedule: Schedule }) {
  const t = useText(schedules);
  const format = useFormat();
  if (id === null || at === null)
    return (
      <Text size="xs" c="dimmed">
        {t.never}
      </Text>
    );
  if (state === null)
    return (
      <Text size="xs" c="dimmed" truncate>
        {format.ago(at)}, {t.unknown}
      </Text>
    );
  return (
    <Group gap={8} wrap="nowrap">
      <Box flex="none">
        <RunStateBadge state={state} />
      </Box>
      <AnchorLink to="/runs/$id" params={{ id }} size="sm" aria-label={`${t.last}, ${format.ago(at)}`} truncate>
        {format.ago(at)}
      </AnchorLink>
    </Group>
  );
}

function Acts({ schedule, act, run, remove }: Props) {
  const t = useText(schedules);
  const stands = standing(schedule);
  const change = stands === "over" ? undefined : CHANGES[stands];
  return (
    <Menu position="bottom-end" withinPortal>
      <Menu.Target>
        <ActionIcon size={36} aria-label={t.doing(visible(schedule.name))}>
          <IconDots size={18} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {change && (
          <Menu.Item leftSection={<change.icon size={16} />} onClick={act}>
            {t[change.word]}
          </Menu.Item>
        )}
        {stands !== "held" && (
          <Menu.Item leftSection={<IconPlayerPlay size={16} />} onClick={run}>
            {t.runNow}
          </Menu.Item>
        )}
        <Menu.Item leftSection={<IconPencil size={16} />} renderRoot={(props) => <Link to="/schedules/$name" params={{ name: schedule.name }} search={{ edit: true }} {...props} />}>
          {t.edit}
        </Menu.Item>
        <Menu.Item leftSection={<IconHistory size={16} />} renderRoot={(props) => <Link to="/runs" search={{ schedule: schedule.name }} {...props} />}>
          {t.allRuns}
        </Menu.Item>
        <Menu.Item color="red" leftSection={<IconTrash size={16} />} onClick={remove}>
          {t.remove}
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

/** A schedule that has not come. */
export function SchedulePlace() {
  return (
    <Box className={classes.row}>
      <Box className={classes.what}>
        <Skeleton h={12} w="28%" mb={8} />
        <Skeleton h={10} w="52%" />
      </Box>
      <Skeleton h={24} className={classes.next ?? ""} />
    </Box>
  );
}

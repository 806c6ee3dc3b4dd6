/** When a schedule comes due next; or that it rests, or is over. */
import { Badge, Text } from "@mantine/core";

import type { Schedule } from "@/api/schedules";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";

import { standing } from "./when";
import { schedules } from "./words";

export function StandingBadge({ schedule }: { schedule: Schedule }) {
  const t = useText(schedules);
  const stands = standing(schedule);
  return <Badge color={{ waits: "pine", paused: "yellow", held: "red", over: "gray" }[stands]}>{t.states[stands]}</Badge>;
}

export function Next({ schedule }: { schedule: Schedule }) {
  const t = useText(schedules);
  const format = useFormat();
  if (schedule.next_at === null || standing(schedule) !== "waits") return <StandingBadge schedule={schedule} />;
  return (
    <>
      <Text size="sm">
        {format.past(schedule.next_at) ? t.due : format.ago(schedule.next_at)}
      </Text>
      <Text size="xs" c="dimmed" visibleFrom="xs">
        {format.time(schedule.next_at)}
      </Text>
    </>
  );
}

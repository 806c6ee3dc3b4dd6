/** The next times of a schedule, as clocks in its time zone show them. */
import { List, Skeleton, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { type Times, timesQuery } from "@/api/schedules";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { ErrorState } from "@/parts/ErrorState";

import { schedules } from "./words";

const HIGH = 132; // five times and what stands above them

interface Props {
  /** What stands above them. */
  title?: string;
  times: Times;
}

export function Coming({ title, times }: Props) {
  const t = useText(schedules);
  const format = useFormat();
  const { data, error, isPlaceholderData } = useQuery(timesQuery(times));
  if (error) return <ErrorState error={error} />;
  if (!data) return <Skeleton h={HIGH} />;
  const day = Number(times.cron?.split(/\s+/)[2]);
  return (
    <div role="status" aria-live="polite" style={{ opacity: isPlaceholderData ? 0.5 : 1 }}>
      {title && (
        <Text size="sm" fw={500} mb={4}>
          {title}
        </Text>
      )}
      <List size="sm" listStyleType="none">
        {data.map((moment, index) => (
          <List.Item key={moment}>
            {format.timeIn(moment, times.time_zone)}
            {index === 0 && (
              <Text span size="sm" c="dimmed">
                {" "}
                · {format.ago(moment)}
              </Text>
            )}
          </List.Item>
        ))}
      </List>
      {day > 28 && (
        <Text size="xs" c="dimmed" mt={4}>
          {t.shortDays}
        </Text>
      )}
    </div>
  );
}

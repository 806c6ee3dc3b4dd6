/** Which skills run at a time, or again and again. */
import { Stack, Text } from "@mantine/core";
import { IconCalendarTime, IconPlus } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";

import { fetched } from "@/api/parts";
import { useMay } from "@/api/scopes";
import { type Schedule, schedulesQuery } from "@/api/schedules";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { EmptyState } from "@/parts/EmptyState";
import { ButtonLink } from "@/parts/links";
import { Loaded } from "@/parts/Loaded";
import { LongList, LongListSkeleton } from "@/parts/LongList";
import { Page } from "@/parts/Page";

import { Remove, useChanging, useRunningNow } from "./changing";
import { ROW, SchedulePlace, ScheduleRow } from "./ScheduleRow";
import { schedules as table } from "./words";

const AddSchedule = lazy(() => fetched(import("./AddSchedule")));

const route = getRouteApi("/schedules");

export function SchedulesPage() {
  const t = useText(table);
  const { add } = route.useSearch();
  const navigate = route.useNavigate();
  const query = useQuery(schedulesQuery());
  const runs = useMay("runs:execute");
  return (
    <Page
      title={t.title}
      lead={t.lead}
      actions={
        runs && (
          <ButtonLink to="/schedules" search={{ add: true }} leftSection={<IconPlus size={16} />}>
            {t.make}
          </ButtonLink>
        )
      }
    >
      <Loaded query={query} skeleton={<LongListSkeleton high={ROW} place={<SchedulePlace />} rows={3} />}>
        {(found) => (found.length ? <Found schedules={found} /> : <EmptyState icon={IconCalendarTime} title={t.empty} hint={t.emptyHint} />)}
      </Loaded>
      <Suspense>{runs && add && <AddSchedule skill={add === true ? undefined : add} close={() => void navigate({ search: {}, replace: true })} />}</Suspense>
    </Page>
  );
}

function Found({ schedules }: { schedules: readonly Schedule[] }) {
  const t = useText(table);
  const format = useFormat();
  const [chosen, setChosen] = useState<Schedule>();
  const changing = useChanging();
  const running = useRunningNow();
  return (
    <Stack gap="sm">
      <Text size="sm" c="dimmed" role="status">
        {t.count(format.number(schedules.length))}
      </Text>
      <LongList
        label={t.list}
        items={schedules}
        total={schedules.length}
        high={ROW}
        row={(schedule) => <ScheduleRow schedule={schedule} act={() => changing.mutate(schedule)} run={() => running.mutate(schedule)} remove={() => setChosen(schedule)} />}
        place={<SchedulePlace />}
      />
      <Remove chosen={chosen} leave={() => setChosen(undefined)} />
    </Stack>
  );
}

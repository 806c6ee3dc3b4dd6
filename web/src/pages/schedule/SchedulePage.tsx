/** One schedule: what runs when and with what, who made it, the next times and the last runs. */
import { Alert, Button, Code, SimpleGrid, Skeleton, Stack, Text } from "@mantine/core";
import { IconInfoCircle, IconPencil, IconPlayerPlay, IconPlus, IconTrash } from "@tabler/icons-react";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";

import { fetched } from "@/api/parts";
import { asProblem } from "@/api/problem";
import { runsQuery } from "@/api/runs";
import { useMay } from "@/api/scopes";
import { type Schedule, scheduleQuery } from "@/api/schedules";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { RecentRuns } from "@/pages/runs/RecentRuns";
import { BackLink } from "@/parts/BackLink";
import { AnchorLink, ButtonLink } from "@/parts/links";
import { FactList } from "@/parts/FactList";
import { skillName } from "@/parts/figures";
import { visible } from "@/parts/foreign";
import { Loaded } from "@/parts/Loaded";
import { Page } from "@/parts/Page";
import { Section } from "@/parts/Section";
import { Value } from "@/parts/Value";

import { CHANGES, Remove, useChanging, useRunningNow } from "../schedules/changing";
import { Coming } from "../schedules/Coming";
import { StandingBadge } from "../schedules/Next";
import { standing, useWhen } from "../schedules/when";
import { schedules } from "../schedules/words";

const EditSchedule = lazy(() => fetched(import("../schedules/EditSchedule")));

const route = getRouteApi("/schedules/$name");

export function SchedulePage() {
  const t = useText(schedules);
  const { name } = route.useParams();
  const { edit } = route.useSearch();
  const navigate = route.useNavigate();
  const may = useMay("runs:execute");
  const query = useQuery(scheduleQuery(name));
  const schedule = query.data;
  const missing = !schedule && asProblem(query.error).status === 404;
  return (
    <Page
      title={visible(name)}
      back={<BackLink to="/schedules">{t.all}</BackLink>}
      marks={schedule && <StandingBadge schedule={schedule} />}
      actions={
        may &&
        (schedule ? (
          <Actions schedule={schedule} />
        ) : (
          missing && (
            <ButtonLink to="/schedules" search={{ add: true }} leftSection={<IconPlus size={16} />}>
              {t.make}
            </ButtonLink>
          )
        ))
      }
    >
      <Loaded query={query} skeleton={<Skeleton h={360} aria-hidden />}>
        {(found) => <ScheduleView schedule={found} />}
      </Loaded>
      <Suspense>{may && edit && schedule && <EditSchedule schedule={schedule} close={() => void navigate({ search: {}, replace: true })} />}</Suspense>
    </Page>
  );
}

function Actions({ schedule }: { schedule: Schedule }) {
  const t = useText(schedules);
  const navigate = route.useNavigate();
  const changing = useChanging();
  const running = useRunningNow();
  const stands = standing(schedule);
  const change = stands === "over" ? undefined : CHANGES[stands];
  const [asked, setAsked] = useState(false);
  return (
    <>
      {stands !== "held" && (
        <Button leftSection={<IconPlayerPlay size={16} />} loading={running.isPending} onClick={() => running.mutate(schedule)}>
          {t.runNow}
        </Button>
      )}
      <ButtonLink to="/schedules/$name" params={{ name: schedule.name }} search={{ edit: true }} variant="default" leftSection={<IconPencil size={16} />}>
        {t.edit}
      </ButtonLink>
      {change && (
        <Button variant="default" leftSection={<change.icon size={16} />} loading={changing.isPending} onClick={() => changing.mutate(schedule)}>
          {t[change.word]}
        </Button>
      )}
      <Button variant="light" color="red" leftSection={<IconTrash size={16} />} onClick={() => setAsked(true)}>
        {t.remove}
      </Button>
      <Remove chosen={asked ? schedule : undefined} leave={() => setAsked(false)} gone={() => navigate({ to: "/schedules" })} />
    </>
  );
}

function ScheduleView({ schedule }: { schedule: Schedule }) {
  const t = useText(schedules);
  const stands = standing(schedule);
  const runs = useInfiniteQuery(runsQuery({ schedule: schedule.name }, 10));
  return (
    <Stack gap="md">
      {stands !== "waits" && (
        <Alert color="gray" icon={<IconInfoCircle size={20} />}>
          <Text size="sm">{{ over: t.isOver, paused: t.isPaused, held: t.isHeld }[stands]}</Text>
          {stands === "held" && (
            <Text size="sm">
              <bdi>{visible(schedule.held ?? "")}</bdi>
            </Text>
          )}
        </Alert>
      )}
      <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
        <Facts schedule={schedule} />
        <Stack gap="md">
          {stands === "waits" && schedule.cron !== null && (
            <Section title={t.comingNext}>
              <Coming times={{ cron: schedule.cron, time_zone: schedule.time_zone }} />
            </Section>
          )}
          <Section title={t.parameters} empty={!Object.keys(schedule.parameters).length && t.noParameters}>
            <Value value={schedule.parameters} />
          </Section>
        </Stack>
      </SimpleGrid>
      <RecentRuns title={t.runs} none={t.never} query={runs} all={{ label: t.allRuns, search: { schedule: schedule.name } }} />
    </Stack>
  );
}

function Facts({ schedule }: { schedule: Schedule }) {
  const t = useText(schedules);
  const format = useFormat();
  const when = useWhen();
  return (
    <Section title={t.schedule}>
      <FactList
        facts={[
          [
            t.facts.skill,
            <AnchorLink key="skill" to="/skills/$id" params={{ id: schedule.skill }} size="sm">
              <bdi>{visible(skillName(schedule.skill))}</bdi>
            </AnchorLink>,
          ],
          [t.facts.entry, schedule.entry && <Code>{visible(schedule.entry)}</Code>],
          [t.facts.commandLine, schedule.arguments.length > 0 && <Code key="arguments">{schedule.arguments.map(visible).join(" ")}</Code>],
          [t.facts.files, schedule.files.length > 0 && <bdi key="files">{schedule.files.map(visible).join(", ")}</bdi>],
          [t.facts.packages, schedule.packages.length > 0 && <bdi key="packages">{schedule.packages.map(visible).join(", ")}</bdi>],
          [t.facts.when, when(schedule)],
          [t.facts.cron, schedule.cron !== null && <Code>{visible(schedule.cron)}</Code>],
          [t.facts.zone, schedule.time_zone],
          [t.facts.maker, schedule.made_by === null ? t.nobody : <bdi key="maker">{visible(schedule.made_by)}</bdi>],
          [t.facts.made, format.time(schedule.created_at)],
          [t.facts.missed, t.misses[schedule.missed]],
          [t.facts.priority, schedule.priority !== 0 && format.number(schedule.priority)],
          [t.facts.content, schedule.digest && <Code title={t.contentWhy}>{schedule.digest.slice(0, 19)}…</Code>],
        ]}
      />
      {schedule.digest && (
        <Text size="xs" c="dimmed" mt="sm">
          {t.contentWhy}
        </Text>
      )}
    </Section>
  );
}

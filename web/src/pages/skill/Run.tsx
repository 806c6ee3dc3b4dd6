/** A form made from what the skill says it takes, the run that comes of it, and the runs before. */
import { Button, Checkbox, Group, Skeleton, Stack, Text } from "@mantine/core";
import { IconCalendarTime, IconPlayerPlay } from "@tabler/icons-react";
import { useInfiniteQuery, useMutation, useQueryClient } from "@tanstack/react-query";
import { type MouseEvent, type SubmitEvent, useRef, useState } from "react";

import { type RunOrder, runsQuery, startRun, useRun } from "@/api/runs";
import { isOver } from "@/api/runStates";
import type { SkillDetail } from "@/api/skills";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { ErrorState } from "@/parts/ErrorState";
import { AnchorLink, ButtonLink } from "@/parts/links";
import { Loaded } from "@/parts/Loaded";
import { Section } from "@/parts/Section";
import { StopRun } from "@/parts/StopRun";

import { Fault } from "../run/Fault";
import { Logs } from "../run/Logs";
import { MadeFiles } from "../run/MadeFiles";
import { Output } from "../run/Output";
import { RecentRuns } from "../runs/RecentRuns";
import { RunStateBadge } from "../runs/RunStateBadge";
import { MissingGrants } from "./MissingGrants";
import { RunInput, useRunInput } from "./RunInput";
import { running } from "./runWords";

export default function Run({ skill }: { skill: SkillDetail }) {
  const cache = useQueryClient();
  const [run, setRun] = useState<string>();
  const busy = useRef(false); // before the button shows it
  const starting = useMutation({
    mutationFn: startRun,
    onSettled: () => {
      busy.current = false;
    },
    onSuccess: async ({ run_id }) => {
      setRun(run_id);
      await cache.invalidateQueries({ queryKey: ["runs", "list"] });
    },
  });
  const start = (order: Omit<RunOrder, "skill">) => {
    if (busy.current) return;
    busy.current = true;
    starting.mutate({ skill: skill.id, ...order });
  };
  return (
    <Stack gap="md">
      <RunForm skill={skill} busy={starting.isPending} again={run !== undefined} start={start} />
      {starting.error && <ErrorState error={starting.error} />}
      {run && <Going key={run} id={run} />}
      <Recent skill={skill} />
    </Stack>
  );
}

interface FormProps {
  skill: SkillDetail;
  busy: boolean;
  again: boolean;
  start: (order: Omit<RunOrder, "skill">) => void;
}

function RunForm({ skill, busy, again, start }: FormProps) {
  const t = useText(running);
  const writing = useRunInput(skill);
  const [fresh, setFresh] = useState(false);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const given = writing.take();
    if (given) start({ ...given, fresh });
  };
  return (
    <Section title={t.title} lead={t.sandbox}>
      <form onSubmit={submit} noValidate>
        <Stack gap="md" maw={760}>
          <MissingGrants needs={skill.environment} />
          <RunInput writing={writing} />
          <Group gap="md">
            <Button type="submit" loading={busy} onClick={once} leftSection={<IconPlayerPlay size={16} />}>
              {again ? t.again : t.run}
            </Button>
            {skill.status === "ok" && (
              <ButtonLink to="/schedules" search={{ add: skill.id }} variant="default" leftSection={<IconCalendarTime size={16} />}>
                {t.schedule}
              </ButtonLink>
            )}
            {skill.front_matter.cacheable === "true" && (
              <Checkbox label={t.fresh} checked={fresh} onChange={(event) => setFresh(event.currentTarget.checked)} />
            )}
          </Group>
        </Stack>
      </form>
    </Section>
  );
}

/** A double click is one click: its second is no submit. */
const once = (event: MouseEvent) => {
  if (event.detail > 1) event.preventDefault();
};

/** A run that was started on the page: where it is, what it came to, what it prints. */
export function Going({ id }: { id: string }) {
  const t = useText(running);
  const format = useFormat();
  const { query, progress } = useRun(id);
  return (
    <Loaded query={query} skeleton={<Skeleton h={160} />}>
      {(run) => {
        const live = !isOver(run.state);
        return (
          <Stack gap="md">
            <Group gap="sm">
              <RunStateBadge state={live ? (progress.state ?? run.state) : run.state} />
              {run.duration_ms !== null && (
                <Text size="sm" c="dimmed">
                  {format.duration(run.duration_ms)}
                </Text>
              )}
              <AnchorLink to="/runs/$id" params={{ id }} size="sm">
                {t.open}
              </AnchorLink>
              {live && <StopRun id={id} label={t.stop} />}
            </Group>
            <Fault run={run} />
            {(run.state === "succeeded" || live) && <Output run={run} />}
            <MadeFiles run={run} />
            {(progress.stdout || progress.stderr || run.stdout || run.stderr) && (
              <Logs stdout={live ? progress.stdout : run.stdout} stderr={live ? progress.stderr : run.stderr} live={live} />
            )}
          </Stack>
        );
      }}
    </Loaded>
  );
}

function Recent({ skill }: { skill: SkillDetail }) {
  const t = useText(running);
  const query = useInfiniteQuery(runsQuery({ skill: skill.id }, 5));
  return <RecentRuns title={t.recent} none={t.none} query={query} all={{ label: t.allRuns, search: { skill: skill.id } }} />;
}

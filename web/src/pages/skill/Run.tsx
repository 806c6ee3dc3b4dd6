/** A form made from what the skill says it takes, the run that comes of it, and the runs before. */
import { Button, Checkbox, Group, Skeleton, Stack, Text } from "@mantine/core";
import { IconCalendarTime, IconPlayerPlay } from "@tabler/icons-react";
import { useInfiniteQuery, useMutation, useQueryClient } from "@tanstack/react-query";
import { type SubmitEvent, useState } from "react";

import { type RunOrder, runsQuery, startRun, useRun } from "@/api/runs";
import { isOver } from "@/api/runStates";
import type { SkillDetail } from "@/api/skills";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { ErrorState } from "@/parts/ErrorState";
import { AnchorLink, ButtonLink } from "@/parts/links";
import { Loaded } from "@/parts/Loaded";
import { Section } from "@/parts/Section";

import { Fault } from "../run/Fault";
import { Logs } from "../run/Logs";
import { MadeFiles } from "../run/MadeFiles";
import { Output } from "../run/Output";
import { RecentRuns } from "../runs/RecentRuns";
import { RunStateBadge } from "../runs/RunStateBadge";
import { FormOrJson, Parameters, useParameters } from "./Parameters";
import { NOTHING_GIVEN, RunInput, scriptsOf } from "./RunInput";
import { running } from "./runWords";

export default function Run({ skill }: { skill: SkillDetail }) {
  const cache = useQueryClient();
  const [run, setRun] = useState<string>();
  const starting = useMutation({
    mutationFn: startRun,
    onSuccess: async ({ run_id }) => {
      setRun(run_id);
      await cache.invalidateQueries({ queryKey: ["runs", "list"] });
    },
  });
  return (
    <Stack gap="md">
      <RunForm skill={skill} busy={starting.isPending} again={run !== undefined} start={(order) => starting.mutate({ skill: skill.id, ...order })} />
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
  const writing = useParameters(skill.input_schema);
  const [fresh, setFresh] = useState(false);
  const [given, give] = useState(NOTHING_GIVEN);
  const missing = !skill.run.entry && !given.entry && scriptsOf(skill).length > 0;
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const parameters = writing.take();
    const { entry, line, files } = given;
    if (parameters) start({ parameters, fresh, entry, arguments: line.split("\n").filter((argument) => argument !== ""), files });
  };
  return (
    <Section title={t.parameters} actions={<FormOrJson writing={writing} />}>
      <form onSubmit={submit} noValidate>
        <Stack gap="md" maw={720}>
          <Parameters writing={writing} />
          <RunInput skill={skill} given={given} give={give} />
          <Group gap="md">
            <Button type="submit" loading={busy} disabled={missing} title={missing ? t.noScript : undefined} leftSection={<IconPlayerPlay size={16} />}>
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
          <Text size="xs" c="dimmed">
            {t.sandbox}
          </Text>
        </Stack>
      </form>
    </Section>
  );
}

/** The run that was started here: where it is, what it came to, what it prints. */
function Going({ id }: { id: string }) {
  const t = useText(running);
  const format = useFormat();
  const { query, heard } = useRun(id);
  return (
    <Loaded query={query} skeleton={<Skeleton h={160} />}>
      {(run) => {
        const live = !isOver(run.state);
        return (
          <Stack gap="md">
            <Group gap="sm">
              <RunStateBadge state={live ? (heard.state ?? run.state) : run.state} />
              {run.duration_ms !== null && (
                <Text size="sm" c="dimmed">
                  {format.duration(run.duration_ms)}
                </Text>
              )}
              <AnchorLink to="/runs/$id" params={{ id }} size="sm">
                {t.open}
              </AnchorLink>
            </Group>
            <Fault run={run} />
            {(run.state === "succeeded" || live) && <Output run={run} />}
            <MadeFiles run={run} />
            {(heard.stdout || heard.stderr || run.stdout || run.stderr) && (
              <Logs stdout={live ? heard.stdout : run.stdout} stderr={live ? heard.stderr : run.stderr} live={live} />
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

/** One run, while it goes on and afterwards: what it was given, its steps, what it printed, and what it came to. */
import { Alert, Button, SimpleGrid, Skeleton, Stack, Text, Tooltip } from "@mantine/core";
import { IconArrowsDiff, IconBan, IconHelpCircle, IconInfoCircle, IconRotateClockwise } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";

import { fetched } from "@/api/parts";
import { cancelRun, type RunProgress, type RunDetail, runQuery, useRun } from "@/api/runs";
import { isOver } from "@/api/runStates";
import { useMay } from "@/api/scopes";
import { skillQuery } from "@/api/skills";
import { runTimelineQuery } from "@/api/timeline";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { BackLink } from "@/parts/BackLink";
import { visible } from "@/parts/foreign";
import { ButtonLink } from "@/parts/links";
import { Loaded } from "@/parts/Loaded";
import { notifyProblem } from "@/parts/notify";
import { Page } from "@/parts/Page";
import { Section } from "@/parts/Section";
import { Value } from "@/parts/Value";

import { RunStateBadge } from "../runs/RunStateBadge";
import { runs } from "../runs/words";
import { Facts } from "./Facts";
import { Fault } from "./Fault";
import { Logs } from "./Logs";
import { MadeFiles } from "./MadeFiles";
import { Output } from "./Output";
import { Contacts, Limits, MemoryWrites } from "./Records";
import { timeline } from "./timelineWords";
import { Steps, Waterfall } from "./Waterfall";

const route = getRouteApi("/runs/$id");

export function RunPage() {
  const t = useText(runs);
  const { id } = route.useParams();
  const { query, progress } = useRun(id);
  const run = query.data;
  return (
    <Page
      title={run?.skill_name ?? t.run}
      back={<BackLink to="/runs">{t.all}</BackLink>}
      lead={run ? <Lead run={run} /> : id}
      marks={run && <RunStateBadge state={progress.state && !isOver(run.state) ? progress.state : run.state} />}
      actions={run && <Actions run={run} />}
    >
      <Loaded query={query} skeleton={<RunSkeleton />}>
        {(run) => <RunView run={run} progress={progress} />}
      </Loaded>
    </Page>
  );
}

function Lead({ run }: { run: RunDetail }) {
  const format = useFormat();
  return (
    <>
      {format.time(run.created_at)}
      {run.duration_ms !== null && ` · ${format.duration(run.duration_ms)}`}
    </>
  );
}

function Actions({ run }: { run: RunDetail }) {
  const t = useText(runs);
  const cache = useQueryClient();
  const navigate = route.useNavigate();
  const executes = useMay("runs:execute");
  const ending = useMutation({
    mutationFn: () => cancelRun(run.run_id),
    onSuccess: (ended) => cache.setQueryData(runQuery(run.run_id).queryKey, ended),
  });
  const again = useMutation({
    mutationFn: async () => {
      const [{ writeAgain }, skill] = await Promise.all([fetched(import("../skill/writeAgain")), cache.query(skillQuery(run.skill))]);
      writeAgain(skill, run);
      await navigate({ to: "/skills/$id", params: { id: skill.id }, search: { tab: "run" } });
    },
    onError: notifyProblem,
  });
  return (
    <>
      <ButtonLink variant="default" to="/skills/$id" params={{ id: run.skill }}>
        {t.open}
      </ButtonLink>
      {isOver(run.state) && (
        <ButtonLink variant="default" to="/runs/compare" search={{ one: run.run_id }} leftSection={<IconArrowsDiff size={16} />}>
          {t.compareThis}
        </ButtonLink>
      )}
      {executes && isOver(run.state) && (
        <Tooltip label={t.againWhy}>
          <Button leftSection={<IconRotateClockwise size={16} />} loading={again.isPending} onClick={() => again.mutate()}>
            {t.again}
          </Button>
        </Tooltip>
      )}
      {executes && !isOver(run.state) && (
        <Button color="red" variant="light" leftSection={<IconBan size={16} />} loading={ending.isPending} onClick={() => ending.mutate()}>
          {t.cancel}
        </Button>
      )}
    </>
  );
}

/** When it waited, worked and took its steps. */
function When({ run }: { run: RunDetail }) {
  const t = useText(timeline);
  const query = useQuery(runTimelineQuery(run.run_id));
  return (
    <Section title={t.title}>
      <Loaded query={query} skeleton={<Skeleton h={60 + 38 * run.steps.length} />}>
        {(found) => <Waterfall timeline={found} steps={run.steps} />}
      </Loaded>
    </Section>
  );
}

function RunView({ run, progress }: { run: RunDetail; progress: RunProgress }) {
  const t = useText(runs);
  const live = !isOver(run.state);
  const steps = live ? progress.steps : run.steps;
  return (
    <Stack gap="md">
      {progress.asked && live && <Question asked={progress.asked} />}
      <Fault run={run} />
      {(run.warnings.length > 0 || run.message) && (
        <Alert color="gray" icon={<IconInfoCircle size={20} />}>
          {[...(run.message ? [run.message] : []), ...run.warnings].map((warning, index) => (
            <Text key={index} size="sm">
              <bdi>{visible(warning)}</bdi>
            </Text>
          ))}
        </Alert>
      )}
      <Output run={run} />
      <MadeFiles run={run} />
      {live ? (
        <Section title={t.steps} empty={!steps.length && t.noSteps}>
          <Steps steps={steps} />
        </Section>
      ) : (
        <When run={run} />
      )}
      <Logs stdout={live ? progress.stdout : run.stdout} stderr={live ? progress.stderr : run.stderr} live={live} />
      <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
        <Stack gap="md">
          <Section title={t.input} empty={!Object.keys(run.parameters).length && t.noInput}>
            <Value value={run.parameters} />
          </Section>
          <MemoryWrites writes={run.memory_writes} />
          <Contacts contacts={run.contacts} />
        </Stack>
        <Stack gap="md">
          <Facts run={run} />
          <Limits limits={run.limits} />
        </Stack>
      </SimpleGrid>
    </Stack>
  );
}

function Question({ asked }: { asked: NonNullable<RunProgress["asked"]> }) {
  const t = useText(runs);
  const format = useFormat();
  return (
    <Alert color="blue" icon={<IconHelpCircle size={20} />} title={t.asks} role="status">
      <Stack gap="xs" align="flex-start">
        <Text size="sm">
          <bdi>{visible(asked.title)}</bdi> {t.asksUntil(format.ago(asked.expires_at))}
        </Text>
        <ButtonLink to="/approvals" size="xs">
          {t.answer}
        </ButtonLink>
      </Stack>
    </Alert>
  );
}

function RunSkeleton() {
  return (
    <Stack gap="md" aria-hidden>
      <Skeleton h={180} />
      <Skeleton h={140} />
      <Skeleton h={120} />
    </Stack>
  );
}

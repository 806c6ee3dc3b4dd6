/** The tests of a skill: run them, follow them, open a case, and see what each version came to. */
import { Alert, Badge, Box, Button, Group, Loader, NativeSelect, SimpleGrid, Skeleton, Stack, Table, Text, UnstyledButton } from "@mantine/core";
import { IconBan, IconChecklist, IconChevronRight, IconPlayerPlay } from "@tabler/icons-react";
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";

import { cancelRun, type RunDetail, runQuery, runsQuery, type RunStep, type RunSummary, startTests, useRun } from "@/api/runs";
import { isOver } from "@/api/runStates";
import { useMay } from "@/api/scopes";
import { installedId, type SkillDetail } from "@/api/skills";
import { type Version, versionsQuery } from "@/api/versions";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { EmptyState } from "@/parts/EmptyState";
import { visible } from "@/parts/foreign";
import { AnchorLink } from "@/parts/links";
import { Loaded } from "@/parts/Loaded";
import { notifyProblem } from "@/parts/notify";
import { Empty, Section } from "@/parts/Section";
import { Value } from "@/parts/Value";

import { Fault } from "../run/Fault";
import { RunStateBadge } from "../runs/RunStateBadge";
import classes from "./Tests.module.css";
import { tests } from "./testWords";

const route = getRouteApi("/skills/$id");

export default function Tests({ skill }: { skill: SkillDetail }) {
  const t = useText(tests);
  const { run: chosen } = route.useSearch();
  const runs = useInfiniteQuery(runsQuery({ skill: skill.id, interface: "test" }, 50));
  const results = runs.data?.pages.flatMap(({ data }) => data) ?? [];
  const shown = chosen ?? results[0]?.run_id;
  return (
    <Stack gap="md">
      <Section title={t.title} lead={t.lead}>
        <Stack gap="md">
          {useMay("runs:execute") && <Start skill={skill} again={results.length > 0} />}
          {shown !== undefined && <Result key={shown} id={shown} />}
        </Stack>
      </Section>
      <Section title={t.history}>
        <Loaded query={runs} skeleton={<Skeleton h={80} />}>
          {() => (results.length > 0 ? <History results={results} shown={shown} /> : <Empty>{t.none}</Empty>)}
        </Loaded>
      </Section>
    </Stack>
  );
}

function Start({ skill, again }: { skill: SkillDetail; again: boolean }) {
  const t = useText(tests);
  const cache = useQueryClient();
  const navigate = route.useNavigate();
  const known = installedId(skill.id);
  const versions = useQuery({ ...versionsQuery(known ?? ""), enabled: known !== undefined }).data?.filter(usable) ?? [];
  const [version, setVersion] = useState("");
  const starting = useMutation({
    mutationFn: () => startTests({ skill: skill.id, version: version || undefined }),
    onSuccess: async ({ run_id }) => {
      await navigate({ search: (before) => ({ ...before, run: run_id }), replace: true, resetScroll: false });
      await cache.invalidateQueries({ queryKey: ["runs", "list"] });
    },
    onError: notifyProblem,
  });
  return (
    <Group gap="sm" align="flex-end">
      {versions.length > 1 && (
        <NativeSelect
          label={t.version}
          data={[{ value: "", label: t.serving }, ...versions.map((one) => ({ value: one.version, label: one.declared_version ? `${visible(one.declared_version)} · ${one.version}` : one.version }))]}
          value={version}
          onChange={({ currentTarget }) => setVersion(currentTarget.value)}
        />
      )}
      <Button leftSection={<IconPlayerPlay size={16} />} loading={starting.isPending} onClick={() => starting.mutate()}>
        {again ? t.again : t.run}
      </Button>
    </Group>
  );
}

const usable = ({ yanked, removed, status }: Version): boolean => !yanked && !removed && status !== "failed";

/** One try: while it goes on what is done of it, then each of its cases. */
function Result({ id }: { id: string }) {
  const t = useText(tests);
  const { query, progress } = useRun(id);
  return (
    <Loaded query={query} skeleton={<Skeleton h={120} />}>
      {(run) => {
        const live = !isOver(run.state);
        const cases = live ? progress.steps : run.steps;
        return (
          <Stack gap="sm">
            <Group gap="sm" role="status">
              <RunStateBadge state={live ? (progress.state ?? run.state) : run.state} />
              <Text size="sm" fw={560}>
                {live ? t.going(cases.length) : <Verdict run={run} />}
              </Text>
              {live && <Loader size={14} />}
              {run.version && (
                <Text size="sm" c="dimmed" ff="monospace">
                  {visible(run.version)}
                </Text>
              )}
              <AnchorLink to="/runs/$id" params={{ id }} size="sm">
                {t.open}
              </AnchorLink>
              {live && <Stop id={id} />}
            </Group>
            {!live && run.error?.code !== "TESTS_FAILED" && <Fault run={run} />}
            {cases.length > 0 && (
              <Box role="list" aria-label={t.cases} className={classes.cases}>
                {cases.map((one) => (
                  <Case key={one.stepId} step={one} />
                ))}
              </Box>
            )}
            {!live && cases.length === 0 && run.error?.code === "TESTS_FAILED" && <EmptyState icon={IconChecklist} title={t.nothing} hint={t.nothingHint} />}
            {run.warnings.length > 0 && (
              <Alert color="yellow" variant="light" title={t.left}>
                {run.warnings.map((one) => (
                  <Text key={one} size="sm">
                    <bdi>{visible(one)}</bdi>
                  </Text>
                ))}
              </Alert>
            )}
          </Stack>
        );
      }}
    </Loaded>
  );
}

function Verdict({ run: { steps } }: { run: RunDetail }) {
  const t = useText(tests);
  return <>{steps.length > 0 ? t.verdict(steps.filter(({ error }) => !error).length, steps.length) : ""}</>;
}

function Stop({ id }: { id: string }) {
  const t = useText(tests);
  const cache = useQueryClient();
  const stopping = useMutation({ mutationFn: () => cancelRun(id), onSuccess: (ended) => cache.setQueryData(runQuery(id).queryKey, ended), onError: notifyProblem });
  return (
    <Button size="xs" color="red" variant="light" leftSection={<IconBan size={15} />} loading={stopping.isPending} onClick={() => stopping.mutate()}>
      {t.stop}
    </Button>
  );
}

interface Came {
  kind: keyof (typeof tests)["en"]["kinds"];
  expected?: unknown;
  got?: unknown;
  log?: string;
}

/** One case; one that failed stands open. */
function Case({ step }: { step: RunStep }) {
  const t = useText(tests);
  const format = useFormat();
  const failed = Boolean(step.error);
  const { kind, expected, got, log } = step.output as Came;
  const has = failed || (step.input !== null && step.input !== undefined) || Boolean(log);
  const [open, setOpen] = useState(failed);
  return (
    <Box role="listitem">
      <UnstyledButton className={classes.case ?? ""} onClick={() => setOpen(!open)} aria-expanded={has ? open : undefined} disabled={!has}>
        <IconChevronRight size={15} className={classes.chevron} data-open={open} style={{ visibility: has ? "visible" : "hidden" }} />
        <Badge color={failed ? "red" : "pine"} className={classes.mark ?? ""}>
          {failed ? t.failed : t.passed}
        </Badge>
        <Text size="sm" fw={560} truncate className={classes.name ?? ""}>
          <bdi>{visible(step.stepName)}</bdi>
        </Text>
        <Text size="xs" c="dimmed" visibleFrom="xs">
          {t.kinds[kind]}
        </Text>
        <Text size="xs" c="dimmed" className={classes.took ?? ""}>
          {step.duration > 0 ? format.duration(step.duration) : ""}
        </Text>
      </UnstyledButton>
      {open && has && (
        <Stack gap="sm" className={classes.detail ?? ""}>
          {failed && (
            <Text size="sm" fw={560}>
              <bdi>{visible(String(step.error))}</bdi>
            </Text>
          )}
          {step.input !== null && step.input !== undefined && (
            <SimpleGrid cols={{ base: 1, sm: 3 }} spacing="md">
              {([["input", step.input], ["expected", expected], ["got", got]] as const).map(([name, value]) => (
                <Box key={name} role="group" aria-label={t[name]} miw={0}>
                  <Text size="xs" c="dimmed" mb={4}>
                    {t[name]}
                  </Text>
                  <Value value={value ?? null} />
                </Box>
              ))}
            </SimpleGrid>
          )}
          {log && (
            <Box>
              <Text size="xs" c="dimmed" mb={4}>
                {t.log}
              </Text>
              <pre className={classes.log}>{visible(log)}</pre>
            </Box>
          )}
        </Stack>
      )}
    </Box>
  );
}

/** What each version came to, the newest version first; a row opens its result above. */
function History({ results, shown }: { results: readonly RunSummary[]; shown: string | undefined }) {
  const t = useText(tests);
  const format = useFormat();
  const order = [...new Set(results.map(({ version }) => version))];
  const sorted = [...results].sort((one, two) => order.indexOf(one.version) - order.indexOf(two.version));
  return (
    <Box className={classes.scroll} tabIndex={0}>
      <Table>
        <Table.Thead>
          <Table.Tr>
            {(["version", "result", "took", "when"] as const).map((name) => (
              <Table.Th key={name}>{t.columns[name]}</Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {sorted.map((run, at) => (
            <Table.Tr key={run.run_id} data-shown={run.run_id === shown} className={classes.result ?? ""}>
              <Table.Td ff="monospace">{run.version === sorted[at - 1]?.version && at > 0 ? "" : run.version ? visible(run.version) : t.noVersion}</Table.Td>
              <Table.Td>
                <AnchorLink to="/skills/$id" params={(before) => ({ id: before.id ?? "" })} search={(before) => ({ ...before, run: run.run_id })} size="sm" resetScroll={false}>
                  {run.state === "succeeded" ? t.allPassed : run.error?.code === "TESTS_FAILED" ? visible(run.error.message ?? "") : run.state}
                </AnchorLink>
              </Table.Td>
              <Table.Td>{run.duration_ms === null ? "" : format.duration(run.duration_ms)}</Table.Td>
              <Table.Td>{format.ago(run.created_at)}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Box>
  );
}

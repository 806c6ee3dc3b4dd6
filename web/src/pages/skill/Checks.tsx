/** What a skill is tried with, its tests or its prompts: start it, follow it, open a case, and see what each version came to. */
import { Alert, Box, Button, Group, Loader, NativeSelect, Skeleton, Stack, Table, Text } from "@mantine/core";
import { IconChecklist, IconPlayerPlay, IconTargetArrow } from "@tabler/icons-react";
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { type ComponentType, useState } from "react";

import { type RunDetail, runsQuery, type RunStep, type RunSummary, startTests, startTriggers, useRun } from "@/api/runs";
import { isOver } from "@/api/runStates";
import { useMay } from "@/api/scopes";
import { installedId, type SkillDetail } from "@/api/skills";
import { type Version, versionsQuery } from "@/api/versions";
import { type Said, useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { EmptyState } from "@/parts/EmptyState";
import { visible } from "@/parts/foreign";
import { AnchorLink } from "@/parts/links";
import { Loaded } from "@/parts/Loaded";
import { notifyProblem } from "@/parts/notify";
import { Empty, Section } from "@/parts/Section";
import { StopRun } from "@/parts/StopRun";

import { Fault } from "../run/Fault";
import { RunStateBadge } from "../runs/RunStateBadge";
import { checkable } from "./checkable";
import classes from "./Tests.module.css";
import { tests, triggers } from "./testWords";

const route = getRouteApi("/skills/$id");

export interface Way {
  kind: "test" | "eval";
  /** Draws one case. */
  Case: ComponentType<{ step: RunStep }>;
  /** Draws what was found out in all, below the cases. */
  Sum?: ComponentType<{ run: RunDetail }>;
}

type SaidOf = Pick<Said<(typeof triggers)["en"]>, "title" | "lead" | "run" | "again" | "stop" | "version" | "serving" | "going" | "verdict" | "cases" | "nothing" | "nothingHint" | "history" | "none" | "columns" | "noVersion" | "allPassed" | "open">;

function useSaid(kind: Way["kind"]): SaidOf {
  const [test, prompt] = [useText(tests), useText(triggers)];
  return kind === "test" ? test : prompt;
}

export function Checks({ skill, ...way }: Way & { skill: SkillDetail }) {
  const t = useSaid(way.kind);
  const { run: chosen } = route.useSearch();
  const runs = useInfiniteQuery(runsQuery({ skill: skill.id, interface: way.kind }, 50));
  const results = runs.data?.pages.flatMap(({ data }) => data) ?? [];
  const shown = chosen ?? results[0]?.run_id;
  const some = checkable(skill, way.kind);
  return (
    <Stack gap="md">
      <Section title={t.title} lead={t.lead}>
        <Stack gap="md">
          {!some && <Nothing kind={way.kind} />}
          {useMay("runs:execute") && some && <Start skill={skill} kind={way.kind} again={results.length > 0} />}
          {(some || chosen !== undefined) && shown !== undefined && <Result key={shown} id={shown} {...way} />}
        </Stack>
      </Section>
      <Section title={t.history}>
        <Loaded query={runs} skeleton={<Skeleton h={80} />}>
          {() => (results.length > 0 ? <History results={results} shown={shown} kind={way.kind} /> : <Empty>{t.none}</Empty>)}
        </Loaded>
      </Section>
    </Stack>
  );
}

function Start({ skill, kind, again }: { skill: SkillDetail; kind: Way["kind"]; again: boolean }) {
  const t = useSaid(kind);
  const cache = useQueryClient();
  const navigate = route.useNavigate();
  const known = installedId(skill.id);
  const versions = useQuery({ ...versionsQuery(known ?? ""), enabled: known !== undefined }).data?.filter(usable) ?? [];
  const [version, setVersion] = useState("");
  const starting = useMutation({
    mutationFn: () => (kind === "test" ? startTests({ skill: skill.id, version: version || undefined }) : startTriggers({ skill: skill.id })),
    onSuccess: async ({ run_id }) => {
      await navigate({ search: (before) => ({ ...before, run: run_id }), replace: true, resetScroll: false });
      await cache.invalidateQueries({ queryKey: ["runs", "list"] });
    },
    onError: notifyProblem,
  });
  return (
    <Group gap="sm" align="flex-end">
      {kind === "test" && versions.length > 1 && (
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
function Result({ id, kind, Case, Sum }: Way & { id: string }) {
  const t = useSaid(kind);
  const { query, progress } = useRun(id);
  return (
    <Loaded query={query} skeleton={<Skeleton h={120} />}>
      {(run) => {
        const live = !isOver(run.state);
        const cases = live ? progress.steps : run.steps;
        if (!live && cases.length === 0 && run.error?.code === "TESTS_FAILED") return <Nothing kind={kind} left={run.warnings} />;
        return (
          <Stack gap="sm">
            <Group gap="sm" role="status">
              <RunStateBadge state={live ? (progress.state ?? run.state) : run.state} />
              <Text size="sm" fw={560}>
                {live ? t.going(cases.length) : <Verdict run={run} kind={kind} />}
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
              {live && <StopRun id={id} label={t.stop} />}
            </Group>
            {!live && run.error?.code !== "TESTS_FAILED" && <Fault run={run} />}
            {cases.length > 0 && (
              <Box role="list" aria-label={t.cases} className={classes.cases}>
                {cases.map((one) => (
                  <Case key={one.stepId} step={one} />
                ))}
              </Box>
            )}
            {!live && Sum && <Sum run={run} />}
            <Left out={run.warnings} />
          </Stack>
        );
      }}
    </Loaded>
  );
}

/** That there is nothing to try, and what to add; `left` was there and could not be used. */
function Nothing({ kind, left = [] }: { kind: Way["kind"]; left?: readonly string[] }) {
  const t = useSaid(kind);
  return (
    <>
      <EmptyState icon={kind === "test" ? IconChecklist : IconTargetArrow} title={t.nothing} hint={t.nothingHint} />
      <Left out={left} />
    </>
  );
}

function Left({ out }: { out: readonly string[] }) {
  const t = useText(tests);
  if (out.length === 0) return null;
  return (
    <Alert color="yellow" variant="light" title={t.left}>
      {out.map((one) => (
        <Text key={one} size="sm">
          <bdi>{visible(one)}</bdi>
        </Text>
      ))}
    </Alert>
  );
}

function Verdict({ run: { steps }, kind }: { run: RunDetail; kind: Way["kind"] }) {
  const t = useSaid(kind);
  return <>{steps.length > 0 ? t.verdict(steps.filter(({ error }) => !error).length, steps.length) : ""}</>;
}

/** What each version came to, the newest version first; a row opens its result above. */
function History({ results, shown, kind }: { results: readonly RunSummary[]; shown: string | undefined; kind: Way["kind"] }) {
  const t = useSaid(kind);
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

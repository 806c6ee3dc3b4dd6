/** Every run there was, and those that go on: of a skill, in a state, through an interface, of somebody, in some time. */
import { Group, Pill, Select, Stack, Switch, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { IconArrowsDiff, IconChartBar, IconHistory, IconMoodEmpty, IconSearch, IconUser } from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";

import { type ListedRun, runsQuery } from "@/api/runs";
import { INTERFACES, RUN_STATES } from "@/api/runStates";
import type { RunsSearch } from "@/app/search";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { EmptyState } from "@/parts/EmptyState";
import { visible } from "@/parts/foreign";
import { ButtonLink } from "@/parts/links";
import { Page } from "@/parts/Page";
import { PagedList } from "@/parts/PagedList";
import { TimeSelect } from "@/parts/TimeSelect";

import { RunChart } from "./RunChart";
import { ROW, RunPlace, RunRow } from "./RunRow";
import classes from "./RunRow.module.css";
import { ScheduleFold, useFolded } from "./ScheduleFold";
import { runs } from "./words";

const route = getRouteApi("/runs");
const NONE: readonly string[] = [];

export function RunsPage() {
  const t = useText(runs);
  const format = useFormat();
  const chosen = route.useSearch();
  const navigate = route.useNavigate();
  const { each = false, open: named = NONE, ...narrowing } = chosen;
  const fold = !each && chosen.schedule === undefined;
  const open = fold ? named : NONE;
  const query = useInfiniteQuery(runsQuery(narrowing, 50, fold));
  const folded = useFolded(open, narrowing);
  const toggle = (name: string) => {
    const others = open.filter((other) => other !== name);
    void navigate({ search: (before) => ({ ...before, open: others.length < open.length ? others : [...open, name] }), replace: true, resetScroll: false });
  };
  const isFold = ({ schedule, runs: together }: ListedRun) => fold && schedule !== null && together > 1;
  const narrowed = Object.values<unknown>(narrowing).some((value) => value !== undefined);
  const all = query.data?.pages.at(-1)?.meta.runs ?? 0;
  return (
    <Page
      title={t.title}
      lead={t.lead}
      actions={
        <>
          <ButtonLink to="/runs/compare" variant="default" leftSection={<IconArrowsDiff size={16} />}>
            {t.compareTwo}
          </ButtonLink>
          <ButtonLink to="/insights" variant="default" leftSection={<IconChartBar size={16} />}>
            {t.insights}
          </ButtonLink>
        </>
      }
    >
      <Stack gap="sm">
        <Narrow />
        {(narrowed || all > 0) && <RunChart chosen={chosen} narrowing={narrowing} />}
        {chosen.schedule === undefined && all > 0 && <Together />}
        <PagedList
          query={query}
          label={t.list}
          count={() => t.count(format.number(all))}
          high={ROW}
          row={(run) => (isFold(run) ? <ScheduleFold run={run} open={open.includes(run.schedule ?? "")} toggle={() => toggle(run.schedule ?? "")} /> : <RunRow run={run} />)}
          below={(run) => (isFold(run) ? (folded.get(run.schedule ?? "") ?? []) : [])}
          place={<RunPlace />}
          none={narrowed ? <NoMatch /> : <Nothing />}
        />
      </Stack>
    </Page>
  );
}

/** Whether the runs of a schedule are one row. */
function Together() {
  const t = useText(runs);
  const chosen = route.useSearch();
  const navigate = route.useNavigate();
  return (
    <Switch
      size="xs"
      label={t.together}
      checked={!chosen.each}
      onChange={({ currentTarget: { checked } }) => void navigate({ search: (before) => ({ ...before, each: checked ? undefined : true, open: undefined }), replace: true, resetScroll: false })}
    />
  );
}

function Narrow() {
  const t = useText(runs);
  const chosen = route.useSearch();
  const navigate = route.useNavigate();
  const choose = (change: Partial<RunsSearch>) => void navigate({ search: (before) => ({ ...before, ...change }), replace: true });
  return (
    <Stack gap="xs">
      <div className={classes.filters}>
        <Typed label={t.skill} placeholder={t.skillHint} icon={<IconSearch size={16} />} value={chosen.skill} change={(skill) => choose({ skill })} />
        <Typed label={t.caller} placeholder={t.callerHint} icon={<IconUser size={16} />} value={chosen.caller} change={(caller) => choose({ caller })} />
        <Select
          aria-label={t.state}
          placeholder={`${t.state}: ${t.any}`}
          data={RUN_STATES.map((value) => ({ value, label: t.states[value] }))}
          value={chosen.state ?? null}
          onChange={(value) => choose({ state: value ?? undefined })}
          clearable
        />
        <Select
          aria-label={t.interface}
          placeholder={`${t.interface}: ${t.any}`}
          data={INTERFACES.map((value) => ({ value, label: t.interfaces[value] ?? value }))}
          value={chosen.interface ?? null}
          onChange={(value) => choose({ interface: value ?? undefined })}
          clearable
        />
        <TimeSelect since={chosen.since} until={chosen.until} change={choose} />
      </div>
      <Chosen />
    </Stack>
  );
}

function Typed({ label, placeholder, icon, value, change }: { label: string; placeholder: string; icon: ReactNode; value: string | undefined; change: (value: string | undefined) => void }) {
  const [typed, setTyped] = useState(value ?? "");
  const later = useDebouncedCallback((text: string) => change(text.trim() || undefined), 250);
  return (
    <TextInput
      aria-label={label}
      placeholder={placeholder}
      leftSection={icon}
      value={typed}
      onChange={({ currentTarget: { value: text } }) => {
        setTyped(text);
        later(text);
      }}
    />
  );
}

/** What an address narrows to and no field shows; each can be taken away. */
function Chosen() {
  const t = useText(runs);
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const given = (["schedule", "agent", "version", "tests"] as const).filter((name) => search[name] !== undefined);
  if (given.length === 0) return null;
  return (
    <Group gap="xs">
      {given.map((name) => (
        <Pill
          key={name}
          size="lg"
          withRemoveButton
          removeButtonProps={{ "aria-label": t.without[name], "aria-hidden": false, tabIndex: 0 }}
          onRemove={() => void navigate({ search: (before) => ({ ...before, [name]: undefined }), replace: true })}
        >
          {t.of[name]} <bdi>{name === "tests" ? "" : visible(search[name] ?? "")}</bdi>
        </Pill>
      ))}
    </Group>
  );
}

function Nothing() {
  const t = useText(runs);
  return (
    <EmptyState icon={IconHistory} title={t.empty} hint={t.emptyHint}>
      <ButtonLink to="/skills" variant="light">
        {t.toSkills}
      </ButtonLink>
    </EmptyState>
  );
}

function NoMatch() {
  const t = useText(runs);
  return <EmptyState icon={IconMoodEmpty} title={t.noMatch} hint={t.noMatchHint} />;
}

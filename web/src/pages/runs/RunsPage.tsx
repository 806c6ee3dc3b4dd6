/** Every run there was, and those that go on. */
import { Group, Pill, Select, Stack, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { IconHistory, IconMoodEmpty, IconSearch } from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";

import { runsQuery } from "@/api/runs";
import { RUN_STATES } from "@/api/runStates";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { EmptyState } from "@/parts/EmptyState";
import { visible } from "@/parts/foreign";
import { ButtonLink } from "@/parts/links";
import { Page } from "@/parts/Page";
import { PagedList } from "@/parts/PagedList";

import { ROW, RunPlace, RunRow } from "./RunRow";
import { runs } from "./words";

const route = getRouteApi("/runs");

export function RunsPage() {
  const t = useText(runs);
  const format = useFormat();
  const chosen = route.useSearch();
  const query = useInfiniteQuery(runsQuery(chosen));
  const narrowed = chosen.skill !== undefined || chosen.state !== undefined || chosen.schedule !== undefined;
  return (
    <Page title={t.title} lead={t.lead}>
      <Stack gap="sm">
        <Narrow />
        <PagedList
          query={query}
          label={t.list}
          count={(total) => t.count(format.number(total))}
          high={ROW}
          row={(run) => <RunRow run={run} />}
          place={<RunPlace />}
          none={narrowed ? <NoMatch /> : <Nothing />}
        />
      </Stack>
    </Page>
  );
}

function Narrow() {
  const t = useText(runs);
  const { skill, state, schedule } = route.useSearch();
  const navigate = route.useNavigate();
  const [typed, setTyped] = useState(skill ?? "");
  const narrow = useDebouncedCallback(
    (skill: string) => void navigate({ search: (before) => ({ ...before, skill: skill.trim() || undefined }), replace: true }),
    250,
  );
  return (
    <Group gap="sm">
      <TextInput
        aria-label={t.skill}
        placeholder={t.skillHint}
        leftSection={<IconSearch size={16} />}
        value={typed}
        onChange={({ currentTarget: { value } }) => {
          setTyped(value);
          narrow(value);
        }}
        flex="1 1 200px"
      />
      <Select
        aria-label={t.state}
        placeholder={`${t.state}: ${t.any}`}
        data={RUN_STATES.map((value) => ({ value, label: t.states[value] }))}
        value={state ?? null}
        onChange={(value) =>
          void navigate({ search: (before) => ({ ...before, state: (value ?? undefined) }), replace: true })
        }
        clearable
        w={180}
      />
      {schedule && (
        <Pill
          size="lg"
          withRemoveButton
          removeButtonProps={{ "aria-label": t.anySchedule, "aria-hidden": false, tabIndex: 0 }}
          onRemove={() => void navigate({ search: (before) => ({ ...before, schedule: undefined }), replace: true })}
        >
          {t.ofSchedule} <bdi>{visible(schedule)}</bdi>
        </Pill>
      )}
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

/** The turns of chats that a figure counts: where a skill got to a stage, of an agent, with a model, in some time. */
import { Badge, Box, Group, Pill, Select, Skeleton, Stack, Text, Tooltip } from "@mantine/core";
import { IconMessages, IconMoodEmpty } from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { type TurnSummary, turnsQuery } from "@/api/chat";
import { STAGES } from "@/app/search";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { EmptyState } from "@/parts/EmptyState";
import { skillName } from "@/parts/figures";
import { visible } from "@/parts/foreign";
import { AnchorLink, ButtonLink } from "@/parts/links";
import { Page } from "@/parts/Page";
import { PagedList } from "@/parts/PagedList";
import { TimeSelect } from "@/parts/TimeSelect";

import row from "../runs/RunRow.module.css";
import { chat } from "./words";

const route = getRouteApi("/chat/turns");
const ROW = 66; // pixels
const COLOURS: Readonly<Record<string, string>> = { done: "pine", failed: "red", interrupted: "red", stopped: "gray" };

export function TurnsPage() {
  const t = useText(chat);
  const format = useFormat();
  const chosen = route.useSearch();
  const query = useInfiniteQuery(turnsQuery(chosen));
  return (
    <Page
      title={t.turns.title}
      lead={t.turns.lead}
      actions={
        <ButtonLink to="/chat" variant="default" leftSection={<IconMessages size={16} />}>
          {t.title}
        </ButtonLink>
      }
    >
      <Stack gap="sm">
        <Narrow />
        <PagedList
          query={query}
          label={t.turns.list}
          count={(total) => t.turns.count(format.number(total))}
          high={ROW}
          row={(turn) => <Row turn={turn} />}
          place={<Place />}
          none={<EmptyState icon={IconMoodEmpty} title={t.turns.empty} hint={t.turns.emptyHint} />}
        />
      </Stack>
    </Page>
  );
}

function Narrow() {
  const t = useText(chat);
  const chosen = route.useSearch();
  const navigate = route.useNavigate();
  const choose = (change: Partial<typeof chosen>) => void navigate({ search: (before) => ({ ...before, ...change }), replace: true });
  const given = (["skill", "agent", "model", "failed"] as const).filter((name) => chosen[name] !== undefined);
  const { skill, since, until } = chosen;
  return (
    <Stack gap="xs">
      <div className={row.filters}>
        <Select
          aria-label={t.turns.stage}
          placeholder={`${t.turns.stage}: ${t.turns.any}`}
          data={STAGES.map((value) => ({ value, label: t.turns.stages[value] }))}
          value={chosen.stage ?? null}
          onChange={(value) => choose({ stage: value ?? undefined })}
          clearable
        />
        <TimeSelect since={since} until={until} change={choose} />
      </div>
      <Group gap="xs">
        {given.map((name) => (
          <Pill
            key={name}
            size="lg"
            withRemoveButton
            removeButtonProps={{ "aria-label": t.turns.without[name], "aria-hidden": false, tabIndex: 0 }}
            onRemove={() => choose({ [name]: undefined })}
          >
            {t.turns.of[name]} <bdi>{name === "failed" ? "" : visible(name === "skill" ? skillName(skill ?? "") : (chosen[name] ?? ""))}</bdi>
          </Pill>
        ))}
        {chosen.stage === "refused" && (
          <AnchorLink to="/runs" search={{ state: "failed", ...(skill ? { skill } : {}), ...(since ? { since } : {}), ...(until ? { until } : {}) }} size="sm">
            {t.turns.refusedRuns}
          </AnchorLink>
        )}
      </Group>
    </Stack>
  );
}

function Row({ turn }: { turn: TurnSummary }) {
  const t = useText(chat);
  const format = useFormat();
  const about = [turn.title || t.untitled, turn.agent, turn.model].filter(Boolean).map((one) => visible(one ?? ""));
  return (
    <Link to="/chat/$id" params={{ id: turn.conversation_id }} search={turn.number && !turn.replaced ? { turn: turn.number } : {}} className={row.row}>
      <Box className={row.what}>
        <Text fw={600} size="sm" truncate>
          <bdi>{visible(turn.request) || t.untitled}</bdi>
        </Text>
        <Text size="xs" c="dimmed" truncate>
          <bdi>{about.join(" · ")}</bdi>
        </Text>
      </Box>
      {turn.skill_id && (
        <Text size="sm" truncate className={row.origin ?? ""} visibleFrom="sm">
          <bdi>{visible(skillName(turn.skill_id))}</bdi>
        </Text>
      )}
      {turn.state && (
        <Badge color={COLOURS[turn.state] ?? "yellow"} visibleFrom="xs">
          {t.turns.states[turn.state]}
        </Badge>
      )}
      <Tooltip label={format.time(turn.at)}>
        <Text size="sm" c="dimmed" className={row.when ?? ""}>
          {format.ago(turn.at)}
        </Text>
      </Tooltip>
    </Link>
  );
}

function Place() {
  return (
    <Box className={row.row}>
      <Box className={row.what}>
        <Skeleton h={12} w="46%" mb={8} />
        <Skeleton h={10} w="30%" />
      </Box>
    </Box>
  );
}

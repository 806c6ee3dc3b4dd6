/** The audit log: who changed what, and who was refused, found by words, by who and what, and by days. */
import { Autocomplete, Badge, Box, Select, Skeleton, Stack, Text, TextInput, Tooltip } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { IconMoodEmpty, IconNotes, IconSearch, IconUser } from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";

import { type AuditEvent, auditQuery } from "@/api/audit";
import type { AuditSearch } from "@/app/search";
import { useLanguage, useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { EmptyState } from "@/parts/EmptyState";
import { visible } from "@/parts/foreign";
import { Page } from "@/parts/Page";
import { PagedList } from "@/parts/PagedList";

import { ACTIONS, said } from "./actions";
import classes from "./AuditPage.module.css";
import { audit } from "./words";

const ROW = 58;
const OUTCOMES = ["success", "failed", "refused"] as const;
const COLOURS: Record<string, string> = { success: "pine", failed: "red", refused: "yellow" };

const route = getRouteApi("/audit");

export function AuditPage() {
  const t = useText(audit);
  const format = useFormat();
  const chosen = route.useSearch();
  const query = useInfiniteQuery(auditQuery(chosen));
  const narrowed = Object.values(chosen).some(Boolean);
  return (
    <Page title={t.title} lead={t.lead}>
      <Stack gap="sm">
        <Narrow />
        <PagedList
          query={query}
          label={t.list}
          count={(total) => t.count(format.number(total))}
          high={ROW}
          row={(event) => <Row event={event} />}
          place={<Place />}
          none={
            narrowed ? (
              <EmptyState icon={IconMoodEmpty} title={t.noMatch} hint={t.noMatchHint} />
            ) : (
              <EmptyState icon={IconNotes} title={t.empty} hint={t.emptyHint} />
            )
          }
        />
      </Stack>
    </Page>
  );
}

/** All of it stands in the address. */
function Narrow() {
  const t = useText(audit);
  const chosen = route.useSearch();
  const navigate = route.useNavigate();
  const choose = (change: Partial<AuditSearch>) => void navigate({ search: (before) => ({ ...before, ...change }), replace: true });
  const [typed, setTyped] = useState({ q: chosen.q ?? "", actor: chosen.actor ?? "", action: chosen.action ?? "" });
  const later = useDebouncedCallback(choose, 250);
  const write = (name: keyof typeof typed, value: string) => {
    setTyped((before) => ({ ...before, [name]: value }));
    later(Object.fromEntries(Object.entries({ ...typed, [name]: value }).map(([key, text]) => [key, text.trim() || undefined])));
  };
  return (
    <div className={classes.filters}>
      <TextInput
        aria-label={t.search}
        placeholder={t.searchHint}
        leftSection={<IconSearch size={16} />}
        value={typed.q}
        maxLength={200}
        onChange={({ currentTarget }) => write("q", currentTarget.value)}
        className={classes.search ?? ""}
      />
      <TextInput
        aria-label={t.actor}
        placeholder={t.actor}
        leftSection={<IconUser size={16} />}
        value={typed.actor}
        onChange={({ currentTarget }) => write("actor", currentTarget.value)}
      />
      <Autocomplete aria-label={t.action} placeholder={t.action} data={[...ACTIONS]} limit={40} value={typed.action} onChange={(value) => write("action", value)} />
      <Select
        aria-label={t.outcome}
        placeholder={`${t.outcome}: ${t.any}`}
        data={OUTCOMES.map((value) => ({ value, label: t.outcomes[value] }))}
        value={chosen.outcome ?? null}
        onChange={(value) => choose({ outcome: value ?? undefined })}
        clearable
      />
      {(["since", "until"] as const).map((name) => (
        <TextInput
          key={name}
          type="date"
          aria-label={t[name]}
          leftSection={
            <Text size="xs" c="dimmed">
              {t[name]}
            </Text>
          }
          leftSectionWidth={52}
          value={chosen[name] ?? ""}
          onChange={({ currentTarget: { value } }) => choose({ [name]: value || undefined })}
        />
      ))}
    </div>
  );
}

function Row({ event }: { event: AuditEvent }) {
  const t = useText(audit);
  const format = useFormat();
  const origin = [event.address && `${t.from} ${event.address}`, event.request_id && `${t.request} ${event.request_id}`].filter(Boolean);
  return (
    <Box className={classes.row}>
      <Box className={classes.outcome} visibleFrom="xs">
        <Badge color={COLOURS[event.outcome] ?? "gray"}>{t.outcomes[event.outcome]}</Badge>
      </Box>
      <Box className={classes.what}>
        <Text size="sm" className={classes.sentence ?? ""}>
          <Sentence event={event} />
        </Text>
        <Text size="xs" c="dimmed" truncate visibleFrom="xs">
          <Text span inherit ff="monospace">
            {visible(event.action)}
          </Text>
          {origin.length > 0 && <bdi>{` · ${origin.join(" · ")}`}</bdi>}
        </Text>
      </Box>
      <Tooltip label={format.time(event.at)}>
        <Text size="sm" c="dimmed" className={classes.when ?? ""}>
          {format.ago(event.at)}
        </Text>
      </Tooltip>
    </Box>
  );
}

/** Who did what, or could not, or was not allowed to; an action without words of its own stands as it is called. */
function Sentence({ event: { actor, action, subject, outcome, request_id } }: { event: AuditEvent }) {
  const t = useText(audit);
  const [done, wanted] = said(action, useLanguage()) ?? [t.did(visible(action)), t.do(visible(action))];
  const who = (
    <Text span inherit fw={600}>
      <bdi>{visible(actor)}</bdi>
    </Text>
  );
  const whom = !(request_id && subject.startsWith("/")) && ( // the address of a request says no more than the action
    <Text span inherit fw={560}>
      <bdi>{visible(subject)}</bdi>
    </Text>
  );
  const [before, after] = outcome === "success" ? [done, ""] : t.not[outcome](wanted);
  return (
    <>
      {who} {before} {whom}
      {after && ` ${after}`}
    </>
  );
}

function Place() {
  return (
    <Box className={classes.row}>
      <Skeleton h={18} w={72} />
      <Box className={classes.what}>
        <Skeleton h={12} w="40%" mb={8} />
        <Skeleton h={10} w="24%" />
      </Box>
    </Box>
  );
}

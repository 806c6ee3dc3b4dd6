/** The trail: who changed what, and who was refused. */
import { Badge, Box, Group, Select, Skeleton, Stack, Text, TextInput, Tooltip } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { IconMoodEmpty, IconNotes } from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";

import { type AuditEvent, type AuditNarrowing, auditQuery } from "@/api/audit";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { EmptyState } from "@/parts/EmptyState";
import { visible } from "@/parts/foreign";
import { Page } from "@/parts/Page";
import { PagedList } from "@/parts/PagedList";

import classes from "./AuditPage.module.css";
import { audit } from "./words";

const ROW = 58;
const OUTCOMES = ["success", "failed", "refused"] as const;
const COLOURS: Record<string, string> = { success: "pine", failed: "red", refused: "yellow" };

export function AuditPage() {
  const t = useText(audit);
  const format = useFormat();
  const [typed, setTyped] = useState({ actor: "", action: "", subject: "" });
  const [outcome, setOutcome] = useState<AuditNarrowing["outcome"]>(null);
  const [said] = useDebouncedValue(typed, 250);
  const named = Object.fromEntries(Object.entries(said).filter(([, text]) => text.trim())) as Partial<typeof said>;
  const narrowing: AuditNarrowing = { ...named, ...(outcome ? { outcome } : {}) };
  const query = useInfiniteQuery(auditQuery(narrowing));
  const narrowed = Object.keys(narrowing).length > 0;
  return (
    <Page title={t.title} lead={t.lead}>
      <Stack gap="sm">
        <Group gap="sm">
          {(["actor", "action", "subject"] as const).map((name) => (
            <TextInput
              key={name}
              aria-label={t[name]}
              placeholder={t[name]}
              value={typed[name]}
              onChange={({ currentTarget: { value } }) => setTyped((before) => ({ ...before, [name]: value }))}
              flex="1 1 150px"
            />
          ))}
          <Select
            aria-label={t.outcome}
            placeholder={`${t.outcome}: ${t.any}`}
            data={OUTCOMES.map((value) => ({ value, label: t.outcomes[value] }))}
            value={outcome ?? null}
            onChange={(value) => setOutcome(value)}
            clearable
            w={170}
          />
        </Group>
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

function Row({ event }: { event: AuditEvent }) {
  const t = useText(audit);
  const format = useFormat();
  const outcomes: Record<string, string> = t.outcomes;
  const origin = [event.address && `${t.from} ${event.address}`, event.request_id && `${t.request} ${event.request_id}`].filter(Boolean);
  return (
    <Box className={classes.row}>
      <Box className={classes.outcome}>
        <Badge color={COLOURS[event.outcome] ?? "gray"}>{outcomes[event.outcome] ?? event.outcome}</Badge>
      </Box>
      <Box className={classes.what}>
        <Text size="sm" truncate>
          <Text span inherit fw={600} ff="monospace">
            {visible(event.action)}
          </Text>{" "}
          <bdi>{visible(event.subject)}</bdi>
        </Text>
        <Text size="xs" c="dimmed" truncate>
          <bdi>{[visible(event.actor), ...origin].join(" · ")}</bdi>
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

/** The progress of an install, and its result. */
import { Alert, Button, Code, Group, Loader, Paper, Progress as Bar, Stack, Text, ThemeIcon } from "@mantine/core";
import { IconCheck, IconX } from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";

import { type Operation, useOperation } from "@/api/installing";
import { useText } from "@/i18n";
import { useMeaning } from "@/i18n/chinese";
import { useFormat } from "@/i18n/format";
import { visible } from "@/parts/foreign";
import { versions } from "@/pages/skill/versionWords";
import { ButtonLink } from "@/parts/links";
import { Original } from "@/parts/Original";
import { PowerSentence } from "@/parts/PowerSentence";

import { install } from "./words";

interface Props {
  id: string;
  again: () => void;
  /** Asked when it is over. */
  over: () => void;
  /** Begins it again with consent to what it was refused for. */
  agree: (consent: string) => void;
}

/** A skill that would be installed too, as the refusal names it. */
interface Along {
  skill_id: string;
  source: string;
  required_by: string[];
  widened: string[];
}

export function Progress({ id, again, over, agree }: Props) {
  const t = useText(install);
  const cache = useQueryClient();
  const operation = useOperation(id);
  const state = operation?.state ?? "running";
  const meaning = useMeaning("errors");
  const meant = operation?.error ? meaning(operation.error.code) : undefined;
  const details = operation?.error?.details as { consent?: string; changes?: Along[] } | undefined;
  const along = details?.changes ?? [];
  const consent = along.some(({ required_by }) => required_by.length > 0) ? details?.consent : undefined;
  useEffect(() => {
    if (state === "running") return;
    over();
    void cache.invalidateQueries();
  }, [state, cache, over]);
  return (
    <Stack gap="md" aria-live="polite">
      <Group gap="sm">
        {state === "running" ? (
          <Loader size="sm" />
        ) : (
          <ThemeIcon color={state === "success" ? "pine" : "red"} radius="xl">
            {state === "success" ? <IconCheck size={18} /> : <IconX size={18} />}
          </ThemeIcon>
        )}
        <Text fw={600} size="lg">
          {state === "running" ? t.installing : state === "success" ? t.installed : t.failed}
        </Text>
      </Group>
      {operation?.logs.map((log) => (
        <LogCard key={log.id} log={log} operation={operation} />
      ))}
      {consent && (
        <Alert color="orange" variant="light" title={t.along} role="alert">
          <Stack gap="xs">
            {along.map(({ skill_id, source, required_by, widened }) => (
              <div key={skill_id}>
                <Text size="sm" fw={600}>
                  <bdi>{visible(skill_id)}</bdi> <bdi>{visible(source)}</bdi>
                </Text>
                {[...required_by, ...widened].map((sentence) => (
                  <Text key={sentence} size="sm" style={{ overflowWrap: "anywhere" }}>
                    <PowerSentence>{sentence}</PowerSentence>
                  </Text>
                ))}
              </div>
            ))}
            <Group>
              <Button onClick={() => agree(consent)}>{t.agreeAlong}</Button>
            </Group>
          </Stack>
        </Alert>
      )}
      {operation?.error && !consent && (
        <Alert color="red" variant="light" title={<bdi>{meant?.title ?? visible(operation.error.message)}</bdi>} role="alert">
          {meant && <Text size="sm">{meant.fix}</Text>}
          {meant && <Original>{[operation.error.message]}</Original>}
          <Text size="sm">{t.failedHint}</Text>
          <Code>{operation.error.code}</Code>
        </Alert>
      )}
      {state !== "running" && (
        <Group>
          <Button variant="default" onClick={again}>
            {t.more}
          </Button>
        </Group>
      )}
    </Stack>
  );
}

function LogCard({ log, operation }: { log: Operation["logs"][number]; operation: Operation }) {
  const t = useText(install);
  const v = useText(versions);
  const format = useFormat();
  const skill = operation.definitions.find(({ skillId }) => skillId === log.skill_id);
  const failed = log.status === "failed";
  return (
    <Paper p="md">
      <Group justify="space-between" gap="sm" mb="xs">
        <Text fw={600}>
          <bdi>{visible(skill?.name ?? log.skill_id ?? "…")}</bdi>
        </Text>
        {skill?.isActive && (
          <ButtonLink size="compact-sm" variant="light" to="/skills/$id" params={{ id: `installed:${skill.skillId}` }}>
            {t.open}
          </ButtonLink>
        )}
      </Group>
      <Bar value={failed ? 100 : log.status === "success" ? 100 : log.progress} color={failed ? "red" : "pine"} animated={operation.state === "running"} aria-label={t.installing} />
      <Text size="sm" c="dimmed" mt="xs" mih={22}>
        {skill?.currentVersion && log.status === "success"
          ? t.serving(skill.currentVersion)
          : log.steps.map(({ name, duration_ms }) => `${v.stages[name] ?? name}${duration_ms == null ? "" : ` ${format.duration(duration_ms)}`}`).join(" → ")}
      </Text>
    </Paper>
  );
}

/** One question that waits: what is asked, about which content, and the answers. */
import { Code, Group, Paper, Stack, Text } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { answerQuestion, approvalsQuery, type PendingQuestion, questionsQuery, type Verdict as Answer } from "@/api/approvals";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { visible } from "@/parts/foreign";
import { AnchorLink } from "@/parts/links";
import { Verdict } from "@/parts/Verdict";
import { verdict } from "@/parts/verdictWords";

import { approvals } from "./words";

export function Question({ question }: { question: PendingQuestion }) {
  const t = useText(approvals);
  const v = useText(verdict);
  const format = useFormat();
  const cache = useQueryClient();
  const answering = useMutation({
    mutationFn: (body: Answer) => answerQuestion(question.id, body),
    onSettled: () => Promise.all([cache.invalidateQueries(questionsQuery()), cache.invalidateQueries(approvalsQuery())]),
  });
  return (
    <Paper component="article" p="md" aria-label={visible(question.skill_name)}>
      <Stack gap="sm">
        <Group justify="space-between" gap="xs">
          <Text fw={600}>
            <bdi>{visible(question.title)}</bdi>
          </Text>
          <Text size="sm" c="dimmed">
            {t.until(format.ago(question.expires_at))}
          </Text>
        </Group>
        <Text size="sm" c="dimmed" lineClamp={4} style={{ overflowWrap: "anywhere" }}>
          <bdi>{visible(question.description)}</bdi>
        </Text>
        <Group gap="md">
          <AnchorLink to="/skills/$id" params={{ id: question.skill_id }} size="sm">
            {t.look}
          </AnchorLink>
          {question.run_id && (
            <AnchorLink to="/runs/$id" params={{ id: question.run_id }} size="sm">
              {t.run}
            </AnchorLink>
          )}
          <Text size="xs" c="dimmed">
            <bdi>{visible(question.asked_by)}</bdi> · {t.content} <Code title={question.digest}>{question.digest.slice(0, 19)}…</Code>
          </Text>
        </Group>
        <Verdict
          longer={(["session", "workspace"] as const).map((decision) => ({ decision, label: decision === "session" ? t.session : v.workspace, why: t[`${decision}Why`] }))}
          reason={t.reason}
          busy={answering.isPending}
          error={answering.error}
          answer={(decision, reason) => answering.mutate({ decision, ...(reason ? { reason } : {}) })}
        />
      </Stack>
    </Paper>
  );
}

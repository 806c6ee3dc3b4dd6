/** One question that waits: what is asked, about which content, and the answers. */
import { Button, Code, Group, Menu, Paper, Stack, Text, TextInput } from "@mantine/core";
import { IconCheck, IconChevronDown, IconX } from "@tabler/icons-react";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { answerQuestion, approvalsQuery, type PendingQuestion, questionsQuery, type Verdict } from "@/api/approvals";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { ErrorState } from "@/parts/ErrorState";
import { visible } from "@/parts/foreign";
import { AnchorLink } from "@/parts/links";

import { approvals } from "./words";

export function Question({ question }: { question: PendingQuestion }) {
  const t = useText(approvals);
  const format = useFormat();
  const cache = useQueryClient();
  const [reason, setReason] = useState("");
  const answering = useMutation({
    mutationFn: (decision: Verdict["decision"]) => answerQuestion(question.id, { decision, ...(reason.trim() ? { reason: reason.trim() } : {}) }),
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
        {answering.error && <ErrorState error={answering.error} />}
        <Group gap="xs" align="flex-end">
          <Button.Group>
            <Button leftSection={<IconCheck size={16} />} loading={answering.isPending} onClick={() => answering.mutate("once")}>
              {t.once}
            </Button>
            <Menu position="bottom-end" width={300}>
              <Menu.Target>
                <Button px={8} aria-label={`${t.session} / ${t.workspace}`} disabled={answering.isPending}>
                  <IconChevronDown size={16} />
                </Button>
              </Menu.Target>
              <Menu.Dropdown>
                {(["session", "workspace"] as const).map((decision) => (
                  <Menu.Item key={decision} onClick={() => answering.mutate(decision)}>
                    <Text size="sm" fw={560}>
                      {t[decision]}
                    </Text>
                    <Text size="xs" c="dimmed">
                      {t[`${decision}Why`]}
                    </Text>
                  </Menu.Item>
                ))}
              </Menu.Dropdown>
            </Menu>
          </Button.Group>
          <TextInput
            aria-label={t.reason}
            placeholder={t.reason}
            value={reason}
            maxLength={500}
            onChange={({ currentTarget }) => setReason(currentTarget.value)}
            flex="1 1 220px"
          />
          <Button
            variant="light"
            color="red"
            leftSection={<IconX size={16} />}
            disabled={answering.isPending}
            onClick={() => answering.mutate("reject")}
          >
            {t.reject}
          </Button>
        </Group>
      </Stack>
    </Paper>
  );
}

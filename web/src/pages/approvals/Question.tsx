/** One question that waits: what is asked, about which content, and the answers. */
import { Box, Code, Group, Paper, Stack, Text } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { answerQuestion, approvalsQuery, type PendingQuestion, questionsQuery, type Verdict as Answer } from "@/api/approvals";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { AskedContent } from "@/parts/AskedContent";
import { FactList } from "@/parts/FactList";
import { visible } from "@/parts/foreign";
import { AnchorLink } from "@/parts/links";
import { Value } from "@/parts/Value";
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
        <Group justify="space-between" gap="xs" align="flex-start">
          <Box miw={0} flex="1 1 320px">
            <Text fw={600} style={{ overflowWrap: "anywhere" }}>
              <bdi>{t.ask(visible(question.skill_name))}</bdi>
            </Text>
            <Text size="sm" c="dimmed" style={{ overflowWrap: "anywhere" }}>
              <bdi>{question.input?.schedule ? t.bySchedule(visible(question.input.schedule), visible(question.asked_by)) : t.by(visible(question.asked_by))}</bdi>
              {question.run_id && (
                <>
                  {" · "}
                  <AnchorLink to="/runs/$id" params={{ id: question.run_id }} size="sm" underline="always">
                    {t.run}
                  </AnchorLink>
                </>
              )}
            </Text>
          </Box>
          <Text size="sm" c="dimmed">
            {t.until(format.ago(question.expires_at))}
          </Text>
        </Group>
        <Text size="sm" lineClamp={4} style={{ overflowWrap: "anywhere" }}>
          <bdi>{visible(question.description)}</bdi>
        </Text>
        {question.input && <Given input={question.input} />}
        <AskedContent skill={question.skill_id} digest={question.digest} files={question.files} may={question.may} />
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

/** What the run was given. */
function Given({ input }: { input: NonNullable<PendingQuestion["input"]> }) {
  const t = useText(approvals);
  const command = [input.entry, ...input.arguments].filter(Boolean).map((word) => visible(word ?? "")).join(" ");
  const parameters = Object.keys(input.parameters).length > 0;
  if (!command && !parameters && input.packages.length === 0) return null;
  return (
    <FactList
      facts={[
        [t.script, command && <Code style={{ overflowWrap: "anywhere", whiteSpace: "pre-wrap" }}>{command}</Code>],
        [t.input, parameters && <Value value={input.parameters} />],
        [t.packages, input.packages.length > 0 && <bdi>{input.packages.map(visible).join(", ")}</bdi>],
      ]}
    />
  );
}

/** One version that waits until somebody approves exactly its content. */
import { Badge, Box, Button, Code, Group, List, Paper, Stack, Text, TextInput } from "@mantine/core";
import { IconCheck } from "@tabler/icons-react";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { approveVersion, type VersionToApprove } from "@/api/approvals";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { ErrorState } from "@/parts/ErrorState";
import { FactList } from "@/parts/FactList";
import { visible } from "@/parts/foreign";
import { AnchorLink } from "@/parts/links";
import { notify } from "@/parts/notify";
import { PowerSentence } from "@/parts/PowerSentence";

import { approvals } from "./words";

export function WaitingVersion({ waiting }: { waiting: VersionToApprove }) {
  const t = useText(approvals);
  const format = useFormat();
  const cache = useQueryClient();
  const [reason, setReason] = useState("");
  const approving = useMutation({
    mutationFn: () => approveVersion(waiting, reason.trim()),
    onSuccess: async () => {
      notify({ message: t.versionDone(visible(waiting.skill_id), visible(waiting.label)), color: "green" });
      await cache.invalidateQueries(); // another version may be current now
    },
  });
  return (
    <Paper component="article" p="md" aria-label={`${visible(waiting.skill_id)} ${visible(waiting.label)}`}>
      <Stack gap="sm">
        <Box>
          <Text fw={600} style={{ overflowWrap: "anywhere" }}>
            <bdi>{t.versionAsk(visible(waiting.skill_id), visible(waiting.label))}</bdi>
          </Text>
          <Text size="sm" c="dimmed" style={{ overflowWrap: "anywhere" }}>
            <bdi>
              {t.by(visible(waiting.asked_by))} · {t.since(format.ago(waiting.asked_at))}
            </bdi>
          </Text>
        </Box>
        <FactList
          facts={[
            [t.because, waiting.reasons.map(visible).join(", ")],
            [t.may, waiting.power_sentences.length > 0 ? <Powers sentences={waiting.power_sentences} more={waiting.current === null ? [] : waiting.widened} /> : t.mayNothing],
            [
              t.serves,
              waiting.current && (
                <AnchorLink to="/skills/$id" params={{ id: `installed:${waiting.skill_id}` }} search={{ tab: "versions", after: waiting.version }} size="sm">
                  {t.compareWith(waiting.current)}
                </AnchorLink>
              ),
            ],
            [t.content, <Code key="digest" title={waiting.digest}>{waiting.digest.slice(0, 19)}…</Code>],
          ]}
        />
        {approving.error && <ErrorState error={approving.error} />}
        {waiting.refusal === null ? (
          <Group gap="xs" align="flex-end">
            <Button leftSection={<IconCheck size={16} />} loading={approving.isPending} onClick={() => approving.mutate()}>
              {t.approve}
            </Button>
            <TextInput flex="1 1 220px" maxLength={500} aria-label={t.versionReason} placeholder={t.versionReason} value={reason} onChange={(event) => setReason(event.currentTarget.value)} />
          </Group>
        ) : (
          <Text size="sm" c="dimmed">
            {t.mayNot} <bdi>{visible(waiting.refusal)}</bdi>
          </Text>
        )}
      </Stack>
    </Paper>
  );
}

/** What it may do; what the current version may not is marked. */
function Powers({ sentences, more }: { sentences: readonly string[]; more: readonly string[] }) {
  const t = useText(approvals);
  return (
    <List size="sm" spacing={2} listStyleType="none">
      {[...more, ...sentences.filter((sentence) => !more.includes(sentence))].map((sentence) => (
        <List.Item key={sentence} style={{ overflowWrap: "anywhere" }}>
          <PowerSentence>{sentence}</PowerSentence>
          {more.includes(sentence) && (
            <Badge color="yellow" ml={6}>
              {t.new}
            </Badge>
          )}
        </List.Item>
      ))}
    </List>
  );
}

/** A question of a turn that waits: which skill, what it is for, its files and what it may do; and the answers. */
import { Box, Code, Group, List, Paper, Stack, Text } from "@mantine/core";
import { IconShieldQuestion } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { answerTurn, type ConversationDetail, type Decision, type Turn } from "@/api/chat";
import { sessionQuery } from "@/api/keys";
import { useText } from "@/i18n";
import { FileTree } from "@/parts/FileTree";
import { visible } from "@/parts/foreign";
import { AnchorLink } from "@/parts/links";
import { Verdict } from "@/parts/Verdict";
import { verdict } from "@/parts/verdictWords";

import classes from "./Question.module.css";
import type { Asked } from "./story";
import { chat } from "./words";

export function Question({ turn, asked: { question, calls } }: { turn: Turn; asked: Asked }) {
  const t = useText(chat);
  const v = useText(verdict);
  const cache = useQueryClient();
  const scopes = useQuery(sessionQuery()).data?.scopes ?? [];
  const answering = useMutation({
    mutationFn: (said: Omit<Decision, "call">) => answerTurn(turn, { call: question.call, ...said }),
    onSuccess: (answered) =>
      cache.setQueriesData<ConversationDetail>({ queryKey: ["chat", "one", turn.conversation_id] }, (before) =>
        before && { ...before, turns: before.turns.map((one) => (one.id === answered.id ? answered : one)) },
      ),
    onSettled: () => cache.invalidateQueries({ queryKey: ["chat", "one", turn.conversation_id] }),
  });
  const longer = (["session", ...(scopes.includes("admin") ? ["workspace"] : [])] as ("session" | "workspace")[]);
  const name = visible(question.skillName);
  return (
    <Paper component="section" p="md" aria-label={t.ask.title(name)} className={classes.question ?? ""}>
      <Stack gap="sm">
        <Group gap="xs" wrap="nowrap" align="flex-start">
          <IconShieldQuestion size={20} stroke={1.6} className={classes.mark ?? ""} aria-hidden />
          <Box miw={0}>
            <Text fw={600}>
              <bdi>{t.ask.title(name)}</bdi>
            </Text>
            <Text size="sm" c="dimmed">
              {t.ask.lead}
              {calls.length > 1 && ` ${t.ask.waiting(calls.length)}.`}
            </Text>
          </Box>
        </Group>
        <Text size="sm" lineClamp={5} style={{ overflowWrap: "anywhere" }}>
          <bdi>{visible(question.description)}</bdi>
        </Text>
        <About asked={question} />
        <Verdict
          longer={longer.map((decision) => ({ decision, label: decision === "session" ? t.ask.session : v.workspace, why: t.ask[`${decision}Why`] }))}
          reason={t.ask.reason}
          busy={answering.isPending}
          error={answering.error}
          answer={(decision, reason) => answering.mutate({ decision, ...(decision === "reject" && reason ? { reason } : {}) })}
        />
      </Stack>
    </Paper>
  );
}

const typeOf = (name: string) => (/\.(md|markdown|txt)$/i.test(name) ? "markdown" : /\.(py|sh|js|ts|rb|pl|mjs|bash)$/i.test(name) ? "script" : "other");

function About({ asked }: { asked: Asked["question"] }) {
  const t = useText(chat);
  const [chosen, setChosen] = useState("");
  const { files, may } = asked;
  return (
    <>
      {may.length > 0 && (
        <Box>
          <Text size="xs" fw={600} c="dimmed" mb={2}>
            {t.ask.may}
          </Text>
          <List size="sm" spacing={2}>
            {may.map((sentence) => (
              <List.Item key={sentence} style={{ overflowWrap: "anywhere" }}>
                <bdi>{visible(sentence)}</bdi>
              </List.Item>
            ))}
          </List>
        </Box>
      )}
      {files.length > 0 && (
        <Box>
          <Text size="xs" fw={600} c="dimmed" mb={2}>
            {t.ask.files(files.length)}
          </Text>
          <Box className={classes.files}>
            <FileTree label={t.ask.files(files.length)} files={files.map(({ name, size }) => ({ name, size, type: typeOf(name) }))} chosen={chosen} choose={setChosen} />
          </Box>
        </Box>
      )}
      <Group gap="md">
        <AnchorLink to="/skills/$id" params={{ id: asked.skillId }} search={{ tab: "files", ...(chosen ? { file: chosen } : {}) }} target="_blank" size="sm">
          {t.openSkill}
        </AnchorLink>
        <Text size="xs" c="dimmed">
          {t.ask.content} <Code title={asked.digest}>{asked.digest.slice(0, 19)}…</Code>
        </Text>
      </Group>
    </>
  );
}

/** A question of a turn that waits: which skill, what it is for, its files and what it may do; and the answers. */
import { Box, Code, Group, List, Paper, Stack, Text } from "@mantine/core";
import { IconShieldQuestion } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import type { OpenQuestion, Turn } from "@/api/chat";
import { sessionQuery } from "@/api/keys";
import { useText } from "@/i18n";
import { FileTree, fileType } from "@/parts/FileTree";
import { visible } from "@/parts/foreign";
import { AnchorLink } from "@/parts/links";
import { Verdict } from "@/parts/Verdict";
import { verdict } from "@/parts/verdictWords";

import { useAnswering } from "./answering";
import classes from "./Question.module.css";
import type { Asked } from "./story";
import { chat } from "./words";
import { CommandQuestion } from "./workspace/CommandQuestion";

type SkillAsked = Extract<OpenQuestion, { type: "skill" }>;

/** Calls of tools are asked about one by one, a skill once for all calls that need it. */
export function Question({ turn, asked: { question, calls } }: { turn: Turn; asked: Asked }) {
  return question.type === "command" ? <CommandQuestion turn={turn} question={question} /> : <SkillQuestion turn={turn} question={question} calls={calls} />;
}

function SkillQuestion({ turn, question, calls }: { turn: Turn; question: SkillAsked; calls: readonly string[] }) {
  const t = useText(chat);
  const v = useText(verdict);
  const scopes = useQuery(sessionQuery()).data?.scopes ?? [];
  const answering = useAnswering(turn, question.call);
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

function About({ asked }: { asked: SkillAsked }) {
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
            <FileTree label={t.ask.files(files.length)} files={files.map(({ name, size }) => ({ name, size, type: fileType(name) }))} chosen={chosen} choose={setChosen} />
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

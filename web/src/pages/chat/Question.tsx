/** A question of a turn that waits: which skill, what it is for, its files and what it may do; and the answers. */
import { Box, Code, Group, Paper, Stack, Text } from "@mantine/core";
import { IconShieldQuestion } from "@tabler/icons-react";

import type { ChatQuestion, OpenQuestion, TurnPlace } from "@/api/chat";
import { useMay } from "@/api/scopes";
import { useText } from "@/i18n";
import { AskedContent } from "@/parts/AskedContent";
import { visible } from "@/parts/foreign";
import { Verdict } from "@/parts/Verdict";
import { verdict } from "@/parts/verdictWords";

import { useAnswering } from "./answering";
import { useCallTitle } from "./callTitle";
import classes from "./Question.module.css";
import type { Asked } from "./story";
import { chat } from "./words";
import { CommandQuestion } from "./workspace/CommandQuestion";

type Made = ChatQuestion["calls"][number];
type SkillAsked = Extract<OpenQuestion, { type: "skill" }>;

/** Calls of tools are asked about one by one, a skill once for all calls that need it. */
export function Question({ turn, asked: { question, calls }, made = [] }: { turn: TurnPlace; asked: Asked; made?: readonly Made[] }) {
  return question.type === "command" ? <CommandQuestion turn={turn} question={question} /> : <SkillQuestion turn={turn} question={question} calls={calls} made={made} />;
}

interface SkillProps {
  turn: TurnPlace;
  question: SkillAsked;
  calls: readonly string[];
  /** What the calls were made with, where they are not shown beside it. */
  made: readonly Made[];
}

function SkillQuestion({ turn, question, calls, made }: SkillProps) {
  const t = useText(chat);
  const v = useText(verdict);
  const admin = useMay("admin", false);
  const answering = useAnswering(turn, question.call);
  const longer = (["session", ...(admin ? ["workspace"] : [])] as ("session" | "workspace")[]);
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
        {made.length > 0 && (
          <Box>
            <Text size="xs" fw={600} c="dimmed" mb={2}>
              {t.ask.wants}
            </Text>
            {made.map((call) => (
              <Wanted key={call.id} call={call} />
            ))}
          </Box>
        )}
        <AskedContent skill={question.skillId} digest={question.digest} files={question.files} may={question.may} />
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

/** One call that waits: what it would do, and with what. */
function Wanted({ call }: { call: Made }) {
  const title = useCallTitle(call);
  return (
    <Box mb={4}>
      <Text size="sm" style={{ overflowWrap: "anywhere" }}>
        <bdi>{title}</bdi>
      </Text>
      {call.tool === "run_skill" && (
        <Code block fz="xs" mah={180} style={{ overflow: "auto", whiteSpace: "pre-wrap", overflowWrap: "anywhere" }} tabIndex={0}>
          {visible(JSON.stringify(call.arguments, null, 2))}
        </Code>
      )}
    </Box>
  );
}

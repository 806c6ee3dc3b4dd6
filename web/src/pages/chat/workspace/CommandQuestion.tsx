/** A question about a call of a workspace tool: the very command or program, the files it names, and which rule asks. */
import { Box, Code, Group, Paper, Stack, Text } from "@mantine/core";
import { IconTerminal2 } from "@tabler/icons-react";

import type { OpenQuestion, TurnPlace } from "@/api/chat";
import { useText } from "@/i18n";
import { visible } from "@/parts/foreign";
import { ruleWords } from "@/parts/ruleWords";
import { Verdict } from "@/parts/Verdict";

import calls from "../Calls.module.css";
import { useAnswering } from "../answering";
import classes from "../Question.module.css";
import { chat } from "../words";
import { CutText } from "./CutText";
import { workspace } from "./words";

type Asked = Extract<OpenQuestion, { type: "command" }>;

const CONTENT = 3_000; // characters that are drawn at first

export function CommandQuestion({ turn, question }: { turn: TurnPlace; question: Asked }) {
  const t = useText(workspace);
  const c = useText(chat);
  const answering = useAnswering(turn, question.call);
  const title = t.ask.titles[question.tool] ?? t.ask.other(visible(question.tool));
  return (
    <Paper component="section" p="md" aria-label={title} className={classes.question ?? ""}>
      <Stack gap="sm">
        <Group gap="xs" wrap="nowrap" align="flex-start">
          <IconTerminal2 size={20} stroke={1.6} className={classes.mark ?? ""} aria-hidden />
          <Box miw={0}>
            <Text fw={600}>{title}</Text>
            <Text size="sm" c="dimmed">
              {t.ask.lead}
            </Text>
          </Box>
        </Group>
        <pre className={calls.lines} tabIndex={0} role="region" aria-label={t.parts.command}>
          <CutText text={question.argument} most={20_000} />
        </pre>
        {question.content && <Content question={question} text={question.content} />}
        <About question={question} />
        <Verdict
          longer={[{ decision: "session", label: t.ask.session, why: t.ask.sessionWhy }]}
          reason={c.ask.reason}
          busy={answering.isPending}
          error={answering.error}
          answer={(decision, reason) => answering.mutate({ decision, ...(decision === "reject" && reason ? { reason } : {}) })}
        />
      </Stack>
    </Paper>
  );
}

/** What would be written, replaced or searched for. */
function Content({ question: { tool }, text }: { question: Asked; text: string }) {
  const t = useText(workspace);
  const label = t.ask.contents[tool] ?? t.parts.content;
  return (
    <Box miw={0}>
      <Text size="xs" fw={600} c="dimmed" mb={4}>
        {label}
      </Text>
      <pre className={calls.lines} tabIndex={0} role="region" aria-label={label}>
        <CutText text={text} most={CONTENT} />
      </pre>
    </Box>
  );
}

/** What the server says of a rule that is shown beside it. */
const PLAIN = "this rule matches";

function About({ question: { argument, part, files, folder, level, rule, reason, skills } }: { question: Asked }) {
  const t = useText(workspace);
  const w = useText(ruleWords);
  const by = level ? w.by(w.levels[level] ?? level) : t.ask.why;
  return (
    <Stack gap={4}>
      {part && part.trim() !== argument.trim() && (
        <Line title={t.ask.part}>
          <Code className={classes.code ?? ""}>{visible(part)}</Code>
        </Line>
      )}
      {files.length > 0 && (
        <Line title={t.ask.files}>
          {files.map((name) => (
            <Code key={name} className={classes.code ?? ""}>
              {visible(name)}
            </Code>
          ))}
        </Line>
      )}
      <Line title={t.ask.folder}>
        <Code className={classes.code ?? ""}>{visible(folder)}</Code>
      </Line>
      <Line title={by}>
        {rule && <Code className={classes.code ?? ""}>{visible(rule)}</Code>}
        {reason !== PLAIN && <bdi>{visible(reason)}</bdi>}
      </Line>
      {skills.length > 0 && <Line title={t.ask.followed}>{skills.map(visible).join(", ")}</Line>}
    </Stack>
  );
}

function Line({ title, children }: { title: string; children: React.ReactNode }) {
  return (
    <Group gap={6} align="baseline">
      <Text size="xs" fw={600} c="dimmed">
        {title}
      </Text>
      <Group gap={6} fz="sm" miw={0} maw="100%" style={{ overflowWrap: "anywhere" }}>
        {children}
      </Group>
    </Group>
  );
}

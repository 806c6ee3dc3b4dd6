/** What the model called: each call in one line that opens to what went in, what it prints, and what came out. */
import { Badge, Box, Collapse, Group, Loader, Text, UnstyledButton } from "@mantine/core";
import {
  IconBook2,
  IconCheck,
  IconChevronRight,
  IconCode,
  IconFilePencil,
  IconFileSearch,
  IconFileText,
  IconFolder,
  IconHandStop,
  IconPlayerPlay,
  IconPlugX,
  IconSearch,
  IconTerminal2,
  IconTool,
  IconX,
  type Icon,
} from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { lazy, type ReactNode, Suspense, useEffect, useRef, useState } from "react";

import type { Turn } from "@/api/chat";
import { fetched } from "@/api/parts";
import { runQuery, type RunStep } from "@/api/runs";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { visible } from "@/parts/foreign";
import { AnchorLink } from "@/parts/links";

import classes from "./Calls.module.css";
import { useCallTitle } from "./callTitle";
import { type Call, type CallState, callState } from "./story";
import { chat } from "./words";
import { isWorkspaceTool } from "./workspace/commands";

const Value = lazy(() => fetched(import("@/parts/Value")).then(({ Value }) => ({ default: Value })));
const ScriptSteps = lazy(() => fetched(import("@/pages/run/Waterfall")).then(({ Steps }) => ({ default: Steps })));
const CallDetails = lazy(() => fetched(import("./workspace/CallDetails")).then(({ CallDetails }) => ({ default: CallDetails })));

const FOLDED = 6; // from more calls in a row on only the last are shown at first
const SHOWN = 4;
const ICONS: Record<string, Icon> = {
  skill: IconBook2,
  skills_load: IconBook2,
  read_skill_file: IconFileText,
  run_skill: IconPlayerPlay,
  search_skills: IconSearch,
  skills_list: IconSearch,
  bash: IconTerminal2,
  code_run: IconCode,
  file_read: IconFileText,
  file_write: IconFilePencil,
  file_edit: IconFilePencil,
  file_list: IconFolder,
  file_search: IconFileSearch,
};

export function Calls({ calls, state }: { calls: readonly Call[]; state: Turn["state"] }) {
  const t = useText(chat);
  const [all, setAll] = useState(false);
  const hidden = calls.length > FOLDED && !all ? calls.length - SHOWN : 0;
  return (
    <Box className={classes.calls}>
      {calls.length > FOLDED && (
        <UnstyledButton className={classes.fold ?? ""} aria-expanded={all} onClick={() => setAll(!all)}>
          {all ? t.fewerCalls : t.moreCalls(hidden)}
        </UnstyledButton>
      )}
      {calls.slice(hidden).map((call) => (
        <OneCall key={call.id} call={call} state={state} />
      ))}
    </Box>
  );
}

const MARKS: Record<Exclude<CallState, "runs">, { icon: Icon; color: string }> = {
  ok: { icon: IconCheck, color: "var(--mantine-color-pine-6)" },
  failed: { icon: IconX, color: "var(--mantine-color-red-6)" },
  refused: { icon: IconHandStop, color: "var(--mantine-color-orange-6)" },
  bounded: { icon: IconHandStop, color: "var(--mantine-color-orange-6)" },
  waits: { icon: IconHandStop, color: "var(--mantine-color-yellow-6)" },
  lost: { icon: IconPlugX, color: "var(--mantine-color-dimmed)" },
};

/** What a call that goes on has said last: a line of its script, or the name of a step. */
function lastWord({ log, steps }: Call): string | undefined {
  return log.trimEnd().split("\n").findLast(Boolean) ?? steps.at(-1)?.stepName;
}

function OneCall({ call, state }: { call: Call; state: Turn["state"] }) {
  const t = useText(chat);
  const format = useFormat();
  const [opened, setOpened] = useState(false);
  const title = useCallTitle(call);
  const Mark = ICONS[call.tool] ?? IconTool;
  const now = callState(call, state);
  const { result } = call;
  const tail = now === "runs" ? lastWord(call) : undefined;
  return (
    <Box className={classes.call} data-state={now}>
      <UnstyledButton className={classes.head ?? ""} aria-expanded={opened} onClick={() => setOpened(!opened)}>
        <IconChevronRight size={15} className={classes.arrow ?? ""} data-opened={opened || undefined} aria-hidden />
        <Mark size={16} stroke={1.6} aria-hidden />
        <Text size="sm" className={classes.title ?? ""}>
          <bdi>{title}</bdi>
        </Text>
        {tail && (
          <Text size="xs" c="dimmed" ff="monospace" className={classes.tail ?? ""} aria-hidden>
            <bdi>{visible(tail)}</bdi>
          </Text>
        )}
        <Group gap={8} wrap="nowrap" className={classes.facts ?? ""}>
          {result?.tokens ? (
            <Text size="xs" c="dimmed" visibleFrom="xs">
              {t.tokens(format.number(result.tokens))}
            </Text>
          ) : null}
          {result?.duration_ms !== undefined && result.duration_ms !== null && (
            <Text size="xs" c="dimmed">
              {format.duration(result.duration_ms)}
            </Text>
          )}
          <State state={now} />
        </Group>
      </UnstyledButton>
      <Collapse expanded={opened}>{opened && <Inside call={call} now={now} />}</Collapse>
    </Box>
  );
}

function State({ state }: { state: CallState }) {
  const t = useText(chat);
  if (state === "runs") return <Loader size={14} color="gray" aria-label={t.callStates.runs} />;
  const { icon: Icon, color } = MARKS[state];
  if (state === "ok") return <Icon size={16} color={color} role="img" aria-label={t.callStates.ok} />;
  return (
    <Badge size="sm" color={state === "failed" ? "red" : state === "lost" ? "gray" : "yellow"} leftSection={<Icon size={12} aria-hidden />}>
      {t.callStates[state]}
    </Badge>
  );
}

function Inside({ call, now }: { call: Call; now: CallState }) {
  const t = useText(chat);
  const { result, tool } = call;
  if (isWorkspaceTool(tool))
    return (
      <Box className={classes.inside}>
        <Suspense>
          <CallDetails call={call} tool={tool} running={now === "runs"} />
        </Suspense>
      </Box>
    );
  return (
    <Box className={classes.inside}>
      <Part title={t.given}>
        <Suspense>
          <Value value={call.arguments} />
        </Suspense>
      </Part>
      {now === "runs" && call.steps.length > 0 && <Steps steps={call.steps} />}
      {now === "runs" && call.log && <Log text={call.log} />}
      {result?.run && <OfRun run={result.run} />}
      {result && (
        <Part title={t.gave}>
          <Lines text={result.text} label={t.gave} />
        </Part>
      )}
      <Group gap="md">
        {result?.skill && (
          <AnchorLink to="/skills/$id" params={{ id: result.skill }} size="sm">
            {t.openSkill}
          </AnchorLink>
        )}
        {result?.run && (
          <AnchorLink to="/runs/$id" params={{ id: result.run }} size="sm">
            {t.openRun}
          </AnchorLink>
        )}
      </Group>
    </Box>
  );
}

function OfRun({ run: id }: { run: string }) {
  const t = useText(chat);
  const run = useQuery(runQuery(id)).data;
  if (!run) return null;
  const printed = [run.stdout, run.stderr].filter((text) => text.trim()).join("\n");
  return (
    <>
      {run.steps.length > 0 && <Steps steps={run.steps} />}
      {printed && (
        <Part title={t.printed}>
          <Lines text={printed} label={t.printed} />
        </Part>
      )}
    </>
  );
}

function Steps({ steps }: { steps: readonly RunStep[] }) {
  return (
    <Suspense>
      <ScriptSteps steps={steps} />
    </Suspense>
  );
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <Box miw={0}>
      <Text size="xs" fw={600} c="dimmed" mb={4}>
        {title}
      </Text>
      {children}
    </Box>
  );
}

function Lines({ text, label }: { text: string; label: string }) {
  return (
    <pre className={classes.lines} tabIndex={0} role="region" aria-label={label}>
      {visible(text)}
    </pre>
  );
}

/** What a script prints while it runs; the end stays in sight. */
function Log({ text }: { text: string }) {
  const t = useText(chat);
  const box = useRef<HTMLPreElement>(null);
  useEffect(() => {
    box.current?.scrollTo({ top: box.current.scrollHeight });
  }, [text]);
  return (
    <Part title={t.printed}>
      <pre ref={box} className={classes.lines} tabIndex={0} role="log" aria-live="off" aria-label={t.printed}>
        {visible(text)}
      </pre>
    </Part>
  );
}

/** The session of a workspace: its commands with what they write as it comes, its background processes, and its end. */
import { Badge, Box, Button, Code, Group, Loader, Stack, Text } from "@mantine/core";
import { IconPlayerStopFilled, IconPower } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState } from "react";

import { type ConversationDetail, stopTurn, type Turn } from "@/api/chat";
import { useLiveEvents } from "@/api/turnEvents";
import { endSession, workspaceKey, workspaceQuery, type WorkspaceState } from "@/api/workspace";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { Confirm } from "@/parts/Confirm";
import { ErrorState } from "@/parts/ErrorState";
import { visible } from "@/parts/foreign";
import { notifyProblem } from "@/parts/notify";
import { Empty } from "@/parts/Section";

import { type Command, commandsOf } from "./commands";
import { CutText } from "./CutText";
import classes from "./Terminal.module.css";
import { workspace } from "./words";

const NEAR = 24; // pixels from the end that still count as its end
const LONGEST = 6_000; // characters of one output that are drawn at first

export function Terminal({ conversation }: { conversation: ConversationDetail }) {
  const t = useText(workspace);
  const { data: state, error } = useQuery(workspaceQuery(conversation.id));
  if (error) return <ErrorState error={error} />;
  return (
    <Stack gap="sm" className={classes.terminal ?? ""}>
      {state && !state.enabled && (
        <Box>
          <Text size="sm" fw={560}>
            {t.off}
          </Text>
          <Empty>{visible(state.reason ?? "") || t.offWhy}</Empty>
        </Box>
      )}
      {state?.enabled && <Session conversation={conversation.id} state={state} />}
      <Log turns={conversation.turns} />
      {state && state.processes.length > 0 && <Processes processes={state.processes} />}
    </Stack>
  );
}

function Session({ conversation, state: { is_open, working_folder, path } }: { conversation: string; state: WorkspaceState }) {
  const t = useText(workspace);
  const cache = useQueryClient();
  const [asked, setAsked] = useState(false);
  const ending = useMutation({
    mutationFn: () => endSession(conversation),
    onError: notifyProblem,
    onSettled: async () => {
      setAsked(false);
      await cache.invalidateQueries({ queryKey: workspaceKey(conversation) });
    },
  });
  const folder = working_folder ?? path;
  return (
    <Box>
      <Group gap="xs" justify="space-between">
        <Badge color={is_open ? "pine" : "gray"}>{is_open ? t.session.open : t.session.closed}</Badge>
        {is_open && (
          <Button size="compact-xs" variant="subtle" color="gray" leftSection={<IconPower size={14} />} onClick={() => setAsked(true)}>
            {t.end}
          </Button>
        )}
      </Group>
      <Text size="xs" c="dimmed" mt={4}>
        {is_open ? t.session.openWhy : t.session.closedWhy}
      </Text>
      {folder && (
        <Text size="xs" c="dimmed" mt={4} style={{ overflowWrap: "anywhere" }}>
          {t.folder} <Code>{visible(folder)}</Code>
        </Text>
      )}
      <Confirm opened={asked} close={() => setAsked(false)} title={t.endAsk} action={t.end} danger busy={ending.isPending} act={() => ending.mutate()}>
        {t.endWhy}
      </Confirm>
    </Box>
  );
}

function Log({ turns }: { turns: readonly Turn[] }) {
  const t = useText(workspace);
  const box = useRef<HTMLDivElement>(null);
  const inner = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  useEffect(() => {
    if (!inner.current) return;
    const watching = new ResizeObserver(() => {
      if (atEnd.current) box.current?.scrollTo({ top: box.current.scrollHeight });
    });
    watching.observe(inner.current);
    return () => watching.disconnect();
  }, []);
  const scrolled = () => {
    const { scrollTop = 0, scrollHeight = 0, clientHeight = 0 } = box.current ?? {};
    atEnd.current = scrollTop + clientHeight >= scrollHeight - NEAR;
  };
  return (
    <div ref={box} className={classes.log} role="log" aria-live="off" aria-label={t.log} tabIndex={0} onScroll={scrolled}>
      <div ref={inner} className={classes.inner}>
        {turns.map((turn) => (
          <OfTurn key={turn.id} turn={turn} />
        ))}
        <p className={classes.none}>{t.noCommands}</p>
      </div>
    </div>
  );
}

function OfTurn({ turn }: { turn: Turn }) {
  const live = useLiveEvents(turn.id);
  const events = turn.state === "running" ? (live.events ?? turn.events) : turn.events;
  const commands = useMemo(() => commandsOf(events, turn.state), [events, turn.state]);
  return commands.map((command) => <OneCommand key={command.id} turn={turn} command={command} />);
}

function OneCommand({ turn, command: { language, text, background, output, state, exitCode } }: { turn: Turn; command: Command }) {
  const t = useText(workspace);
  const format = useFormat();
  const stopping = useMutation({ mutationFn: () => stopTurn(turn), onError: notifyProblem });
  const odd = state !== "ok" && state !== "runs";
  return (
    <div className={classes.command} data-state={state}>
      <div className={classes.prompt}>
        <span className={classes.sign} aria-hidden>
          {language ? ">" : "$"}
        </span>
        <pre className={classes.text}>
          {language && <span className={classes.language}>{visible(language)} </span>}
          <CutText text={text} most={1_200} />
          {background && " &"}
        </pre>
        {state === "runs" && (
          <Button size="compact-xs" variant="light" color="red" leftSection={<IconPlayerStopFilled size={12} />} loading={stopping.isPending} onClick={() => stopping.mutate()}>
            {t.stop}
          </Button>
        )}
      </div>
      {output.trim() && (
        <pre className={classes.output}>
          <CutText text={output.replace(/\n+$/, "")} most={LONGEST} />
        </pre>
      )}
      {state === "runs" && (
        <Group gap={6} mt={2}>
          <Loader size={11} color="gray" aria-hidden />
          <Text size="xs" c="dimmed">
            {t.states.runs}
          </Text>
        </Group>
      )}
      {(odd || Boolean(exitCode)) && (
        <Group gap={6} mt={4}>
          {odd && (
            <Badge size="sm" color={state === "failed" ? "red" : state === "lost" ? "gray" : "yellow"}>
              {t.states[state]}
            </Badge>
          )}
          {Boolean(exitCode) && (
            <Badge size="sm" color="red" tt="none">
              {t.exitCode(format.number(exitCode ?? 0))}
            </Badge>
          )}
        </Group>
      )}
    </div>
  );
}

function Processes({ processes }: { processes: WorkspaceState["processes"] }) {
  const t = useText(workspace);
  const format = useFormat();
  return (
    <Box component="section" aria-label={t.processes}>
      <Text size="xs" fw={600} c="dimmed" mb={4}>
        {t.processes}
      </Text>
      <ul className={classes.processes}>
        {processes.map(({ id, command, state, exit_code, seconds }) => (
          <li key={id} className={classes.process}>
            <Code className={classes.what ?? ""}>{visible(command)}</Code>
            <Group gap={6} mt={2}>
              <Badge size="sm" color={state === "running" ? "pine" : "gray"}>
                {t.processStates[state]}
              </Badge>
              <Text size="xs" c="dimmed">
                {id} · {t.ran(format.duration(seconds * 1000))}
                {exit_code !== null && ` · ${t.exitCode(format.number(exit_code))}`}
              </Text>
            </Group>
          </li>
        ))}
      </ul>
    </Box>
  );
}

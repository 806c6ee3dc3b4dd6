/** One turn: what was said, what the model wrote and did, how it ended, and what can be done about it. */
import { ActionIcon, Alert, Anchor, Badge, Box, Button, Group, Loader, Stack, Text, Textarea, Tooltip } from "@mantine/core";
import { IconAlertTriangle, IconFile, IconFileDownload, IconInfoCircle, IconPencil, IconPlugConnectedX, IconPlugX, IconRefresh, IconTimeline, IconTrash } from "@tabler/icons-react";
import { lazy, memo, Suspense, useMemo, useState } from "react";

import { chatFileAddress, isOpen, type Turn } from "@/api/chat";
import { fetched } from "@/api/parts";
import { useTurnEvents } from "@/api/turnEvents";
import { useText } from "@/i18n";
import { useMeaning } from "@/i18n/chinese";
import { common } from "@/i18n/common";
import { useFormat } from "@/i18n/format";
import { CopyIcon } from "@/parts/CopyIcon";
import { visible } from "@/parts/foreign";
import { Original } from "@/parts/Original";
import { sentence } from "@/parts/sentence";
import { WithCode } from "@/parts/WithCode";

import { Calls } from "./Calls";
import type { PanelTab } from "./Panel";
import { Question } from "./Question";
import type { Sending } from "./sending";
import { type Given, withEvent, openQuestions, type Part, parts, type Story, storyOf, written } from "./story";
import classes from "./Thread.module.css";
import { chat } from "./words";
import { workspace } from "./workspace/words";
import { Written } from "./Written";

const TurnTimeline = lazy(() => fetched(import("./TurnTimeline")));

interface Props {
  turn: Turn;
  newest: boolean;
  /** The address names it. */
  wanted: boolean;
  /** Something else can be said now. */
  free: boolean;
  send: Sending["send"];
  openPanel: (tab: PanelTab) => void;
}

export const TurnView = memo(function TurnView({ turn, newest, wanted, free, send, openPanel }: Props) {
  const t = useText(chat);
  const live = useTurnEvents(turn, withEvent);
  const events = turn.state === "running" ? (live.events ?? turn.events) : turn.events;
  const story = useMemo(() => storyOf(events), [events]);
  const running = turn.state === "running";
  return (
    <article className={classes.turn} aria-label={t.turn(turn.number)} data-state={turn.state} data-turn={turn.number} data-wanted={wanted || undefined}>
      <Said turn={turn} story={story} free={free} send={send} />
      <Box className={classes.items} role="group" aria-label={t.answer}>
        {parts(story.items).map((part, index) => (
          <Piece key={index} part={part} turn={turn} running={running} openPanel={openPanel} />
        ))}
        {openQuestions(turn.questions).map((asked) => (
          <Question key={asked.question.digest} turn={turn} asked={asked} />
        ))}
        {running && !live.lost && (
          <Group gap="xs" h={24}>
            <Loader type="dots" size="sm" color="gray" aria-label={t.working} />
          </Group>
        )}
        {running && live.lost && (
          <Alert color="gray" icon={<IconPlugConnectedX size={20} />} role="alert">
            {t.gone}
          </Alert>
        )}
        <Ended turn={turn} story={story} />
        {!isOpen(turn) && <Acts turn={turn} story={story} newest={newest} free={free} send={send} openPanel={openPanel} />}
      </Box>
    </article>
  );
});

function Said({ turn, story, free, send }: { turn: Turn; story: Story; free: boolean; send: Sending["send"] }) {
  const t = useText(chat);
  const [editing, setEditing] = useState(false);
  const [whole, setWhole] = useState(false);
  const c = useText(common);
  const long = turn.request.length > 2_000;
  if (editing) return <Editor turn={turn} send={send} close={() => setEditing(false)} />;
  return (
    <Box className={classes.said} role="group" aria-label={t.said}>
      {story.given.length > 0 && (
        <Group gap={6} justify="flex-end">
          {story.given.map(({ name }) => (
            <Badge key={name} component="a" size="lg" color="gray" leftSection={<IconFile size={14} aria-hidden />} href={chatFileAddress(turn.conversation_id, name)} download={name.split("/").pop()} maw={280} style={{ cursor: "pointer" }}>
              <bdi>{visible(name)}</bdi>
            </Badge>
          ))}
        </Group>
      )}
      <Text component="div" className={`${classes.request ?? ""} ${long && !whole ? (classes.folded ?? "") : ""}`}>
        {visible(turn.request)}
      </Text>
      <Group gap={2} className={classes.acts ?? ""}>
        {long && !whole && (
          <Button size="compact-xs" variant="subtle" color="gray" onClick={() => setWhole(true)}>
            {c.more}
          </Button>
        )}
        <CopyIcon value={turn.request} />
        {free && (
          <Tooltip label={t.edit}>
            <ActionIcon size="sm" aria-label={t.edit} onClick={() => setEditing(true)}>
              <IconPencil size={15} />
            </ActionIcon>
          </Tooltip>
        )}
      </Group>
    </Box>
  );
}

function Editor({ turn, send, close }: { turn: Turn; send: Sending["send"]; close: () => void }) {
  const t = useText(chat);
  const c = useText(common);
  const [text, setText] = useState(turn.request);
  const resend = async () => {
    if (await send({ text, files: [], replaces: turn })) close();
  };
  return (
    <Box className={classes.editor} mb="md">
      <Textarea
        aria-label={t.edit}
        value={text}
        maxLength={400_000}
        autosize
        minRows={2}
        maxRows={12}
        data-autofocus
        ref={(field) => field?.focus()}
        onChange={({ currentTarget }) => setText(currentTarget.value)}
        onKeyDown={({ key }) => key === "Escape" && close()}
      />
      <Group justify="flex-end" gap="xs" mt="xs">
        <Button size="xs" variant="default" onClick={close}>
          {c.cancel}
        </Button>
        <Button size="xs" disabled={!text.trim()} onClick={() => void resend()}>
          {t.resend}
        </Button>
      </Group>
    </Box>
  );
}

const NAMED = 8; // files that are named below the calls that wrote them

/** What calls have written, to be taken; where it is much, the panel has the rest. */
function WrittenFiles({ conversation, files, openPanel }: { conversation: string; files: readonly Given[]; openPanel: Props["openPanel"] }) {
  const t = useText(chat);
  const w = useText(workspace);
  const format = useFormat();
  return (
    <Group gap="4px 16px" miw={0}>
      {files.slice(0, NAMED).map(({ name, size }) => (
        <Group key={name} gap={6} wrap="nowrap" miw={0}>
          <IconFileDownload size={16} stroke={1.6} style={{ flex: "none" }} aria-hidden />
          <Text size="sm" truncate component="a" href={chatFileAddress(conversation, name)} download={name.split("/").pop()} c="inherit">
            <bdi>{t.fileWritten(visible(name))}</bdi>
          </Text>
          <Text size="xs" c="dimmed" style={{ whiteSpace: "nowrap" }}>
            {format.bytes(size)}
          </Text>
        </Group>
      ))}
      {files.length > NAMED && (
        <Anchor component="button" type="button" size="sm" onClick={() => openPanel("files")}>
          {w.moreFiles(files.length - NAMED)}
        </Anchor>
      )}
    </Group>
  );
}

function Piece({ part, turn, running, openPanel }: { part: Part; turn: Turn; running: boolean; openPanel: Props["openPanel"] }) {
  const t = useText(chat);
  const w = useText(workspace);
  switch (part.kind) {
    case "text":
      return <Written text={part.text} live={running} />;
    case "calls":
      return (
        <>
          {part.calls.length > 0 && <Calls calls={part.calls} state={turn.state} />}
          {part.files.length > 0 && <WrittenFiles conversation={turn.conversation_id} files={part.files} openPanel={openPanel} />}
        </>
      );
    case "removed":
      return (
        <Text size="sm" c="dimmed">
          <IconTrash size={16} stroke={1.6} style={{ verticalAlign: -3 }} aria-hidden /> <bdi>{w.removed(visible(part.name))}</bdi>
        </Text>
      );
    case "notice":
      return (
        <Box className={classes.notice}>
          <IconInfoCircle size={14} style={{ verticalAlign: -2 }} aria-hidden /> <bdi>{visible(part.text)}</bdi>
          {part.detail && (
            <details>
              <summary>{t.summary}</summary>
              <pre className={classes.summary}>{visible(part.detail)}</pre>
            </details>
          )}
        </Box>
      );
    case "error":
      return (
        <Failure error={part.error} />
      );
  }
}

/** Why a turn failed, how to fix it, and what the service of the model said itself. */
function Failure({ error }: { error: Extract<Part, { kind: "error" }>["error"] }) {
  const t = useText(chat);
  const meant = useMeaning("errors")(error.code);
  const hint = meant?.fix ?? error.hint;
  return (
    <Alert color="red" icon={<IconAlertTriangle size={20} />} role="alert" title={<WithCode>{meant?.title ?? sentence(visible(error.message))}</WithCode>} styles={{ title: { overflowWrap: "anywhere" } }}>
      <Stack gap="xs">
        {hint && (
          <bdi>
            <WithCode>{meant ? hint : sentence(visible(hint), true)}</WithCode>
          </bdi>
        )}
        {meant && <Original>{[error.message, error.hint]}</Original>}
        {error.said && (
          <Text size="xs" c="dimmed" style={{ overflowWrap: "anywhere" }}>
            {t.serviceSaid} <bdi>{visible(error.said)}</bdi>
          </Text>
        )}
      </Stack>
    </Alert>
  );
}

/** Why a turn did not come to its end, where that is not shown yet. */
function Ended({ turn, story }: { turn: Turn; story: Story }) {
  const t = useText(chat);
  if (turn.state === "interrupted")
    return (
      <Alert color="yellow" icon={<IconPlugX size={20} />} title={t.states.interrupted}>
        {t.interruptedWhy}
      </Alert>
    );
  if (turn.state === "stopped")
    return (
      <Text size="sm" c="dimmed">
        {t.stoppedWhy}
      </Text>
    );
  if (turn.state === "failed" && !story.items.some(({ kind }) => kind === "error"))
    return (
      <Alert color="red" icon={<IconAlertTriangle size={20} />} title={t.states.failed}>
        <bdi>{visible(turn.error?.message ?? "")}</bdi>
      </Alert>
    );
  return null;
}

function Acts({ turn, story, newest, free, send, openPanel }: Omit<Props, "wanted"> & { story: Story }) {
  const t = useText(chat);
  const format = useFormat();
  const text = written(story) || turn.answer;
  const usage = turn.usage;
  const again = () => void send({ text: turn.request, files: [], again: turn });
  const bad = turn.state !== "done";
  const [timed, setTimed] = useState(false);
  const acts = (
    <Group gap="xs" className={classes.acts ?? ""}>
      {text && <CopyIcon value={text} label={t.copyAnswer} />}
      {newest && free && !bad && (
        <Tooltip label={t.retry}>
          <ActionIcon size="sm" aria-label={t.retry} onClick={again}>
            <IconRefresh size={15} />
          </ActionIcon>
        </Tooltip>
      )}
      {newest && free && bad && (
        <Button size="xs" variant="default" leftSection={<IconRefresh size={15} />} onClick={again} style={{ opacity: 1 }}>
          {t.retry}
        </Button>
      )}
      {newest && free && turn.state === "failed" && (
        <Button size="xs" variant="subtle" color="gray" onClick={() => openPanel("about")} style={{ opacity: 1 }}>
          {t.otherModel}
        </Button>
      )}
      {usage && usage.requests > 0 && (
        <Text size="xs" title={t.requests(format.number(usage.requests))}>
          {t.usage(format.number(usage.input_tokens), format.number(usage.output_tokens))}
          {turn.finished_at && ` · ${format.duration(new Date(turn.finished_at).getTime() - new Date(turn.created_at).getTime())}`}
        </Text>
      )}
      <Tooltip label={t.timeline}>
        <ActionIcon size="sm" aria-label={t.timeline} aria-expanded={timed} onClick={() => setTimed(!timed)}>
          <IconTimeline size={15} />
        </ActionIcon>
      </Tooltip>
    </Group>
  );
  return (
    <>
      {acts}
      {timed && (
        <Suspense>
          <TurnTimeline turn={turn} />
        </Suspense>
      )}
    </>
  );
}

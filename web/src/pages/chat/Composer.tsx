/** Where the next message is written: files with it, skills by their names, and the button that stops an answer. */
import { ActionIcon, Box, FileButton, Group, Pill, Text, Textarea, Tooltip } from "@mantine/core";
import { IconArrowUp, IconPaperclip, IconPlayerStopFilled } from "@tabler/icons-react";
import { useMutation, useQuery } from "@tanstack/react-query";
import { type KeyboardEvent, useEffect, useId, useRef, useState } from "react";

import { type ChatCommand, commandsQuery, type ConversationDetail, isOpen, stopTurn } from "@/api/chat";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { ErrorState } from "@/parts/ErrorState";
import { visible } from "@/parts/foreign";
import { notifyProblem } from "@/parts/notify";

import { Commands } from "./Commands";
import classes from "./Composer.module.css";
import { useDraft } from "./drafts";
import type { Sending, Staged } from "./sending";
import { chat } from "./words";

interface Props {
  /** The id of the conversation, when it has one. */
  place: string | undefined;
  conversation: ConversationDetail | undefined;
  sending: Sending;
  /** It cannot be said anything: there is no such conversation, or no server. */
  unable: boolean;
}

export function Composer({ place, conversation, sending, unable }: Props) {
  const t = useText(chat);
  const [text, setText] = useDraft(place ?? "new");
  const field = useRef<HTMLTextAreaElement>(null);
  const list = useId();
  const command = /^\/(\S*)$/.exec(text)?.[1];
  const [closed, setClosed] = useState<string>();
  const looking = command !== undefined && closed !== text;
  const found = useQuery({ ...commandsQuery(command ?? "", place), enabled: looking }).data;
  const offered = looking ? (found ?? []) : [];
  const [at, setAt] = useState(0);
  const chosen = offered[Math.min(at, offered.length - 1)];
  const turn = conversation?.turns.at(-1);
  const going = turn && isOpen(turn) ? turn : undefined;
  const stopping = useMutation({ mutationFn: stopTurn, onError: notifyProblem });
  const busy = Boolean(going ?? sending.pending);
  const sendable = !(unable && place) && text.trim() !== "";
  const [held, setHeld] = useState<string>();
  const holds = busy && held === text;
  useEffect(() => {
    if (window.matchMedia("(hover: hover)").matches) field.current?.focus({ preventScroll: true });
  }, []);

  const say = () => void sending.send({ text, files: sending.staged });
  const send = () => {
    if (sendable && busy) setHeld(text);
    else if (sendable) say();
  };
  useEffect(() => {
    if (!busy && sendable && held === text && !sending.error) say(); // it was entered while the answer was still coming
  });
  const take = (one: ChatCommand) => {
    setText(`/${one.name} `);
    setAt(0);
    field.current?.focus();
  };
  const press = (event: KeyboardEvent<HTMLTextAreaElement>) => {
    if (event.nativeEvent.isComposing) return;
    const steps: Record<string, () => void> = chosen
      ? {
          ArrowDown: () => setAt((at + 1) % offered.length),
          ArrowUp: () => setAt((at - 1 + offered.length) % offered.length),
          Tab: () => take(chosen),
          Enter: () => take(chosen),
          Escape: () => setClosed(text),
        }
      : { Enter: send };
    const step = steps[event.key];
    if (!step || (event.key !== "Escape" && (event.shiftKey || event.altKey || event.ctrlKey || event.metaKey))) return;
    event.preventDefault();
    step();
  };
  return (
    <Box className={classes.place}>
      {sending.error && !sending.pending && (
        <Box mb="sm">
          <ErrorState error={sending.error} />
        </Box>
      )}
      <Box className={classes.box}>
        {offered.length > 0 && <Commands id={list} offered={offered} chosen={chosen} take={take} />}
        {sending.staged.length > 0 && <Attached staged={sending.staged} there={conversation?.files.map(({ name }) => name) ?? []} leave={sending.leave} />}
        <Textarea
          ref={field}
          aria-label={t.message}
          aria-autocomplete="list"
          aria-describedby={`${list}-keys`}
          {...(offered.length ? { "aria-controls": list, "aria-activedescendant": `${list}-${chosen?.id ?? ""}` } : {})}
          placeholder={t.placeholder}
          value={text}
          maxLength={400_000}
          autosize
          minRows={1}
          maxRows={10}
          variant="unstyled"
          classNames={{ input: classes.input ?? "" }}
          onChange={({ currentTarget }) => {
            setText(currentTarget.value);
            setHeld(undefined);
            setAt(0);
            if (sending.error) sending.forgive();
          }}
          onKeyDown={press}
        />
        <Group gap="xs" wrap="nowrap" className={classes.buttons ?? ""}>
          <FileButton multiple onChange={(files) => sending.attach(files)}>
            {(props) => (
              <Tooltip label={t.attach}>
                <ActionIcon {...props} size="lg" aria-label={t.attach}>
                  <IconPaperclip size={19} stroke={1.6} />
                </ActionIcon>
              </Tooltip>
            )}
          </FileButton>
          <Text id={`${list}-keys`} size="xs" c="dimmed" flex={1} truncate visibleFrom="xs">
            {holds ? t.held : t.keys}
          </Text>
          <Box flex={1} hiddenFrom="xs" />
          {going ? (
            <Tooltip label={t.stop}>
              <ActionIcon size="lg" radius="xl" variant="filled" color="gray.8" aria-label={t.stop} loading={stopping.isPending} onClick={() => stopping.mutate(going)}>
                <IconPlayerStopFilled size={16} />
              </ActionIcon>
            </Tooltip>
          ) : (
            <Tooltip label={t.send}>
              <ActionIcon size="lg" radius="xl" variant="filled" color="pine" aria-label={t.send} disabled={!sendable} loading={sending.pending !== undefined} onClick={send}>
                <IconArrowUp size={19} />
              </ActionIcon>
            </Tooltip>
          )}
        </Group>
      </Box>
    </Box>
  );
}

function Attached({ staged, there, leave }: { staged: readonly Staged[]; there: readonly string[]; leave: (name: string) => void }) {
  const t = useText(chat);
  const format = useFormat();
  return (
    <Pill.Group className={classes.files ?? ""}>
      {staged.map(({ name, data }) => (
        <Pill key={name} size="md" withRemoveButton removeButtonProps={{ "aria-label": t.dropped(visible(name)), "aria-hidden": false, tabIndex: 0 }} onRemove={() => leave(name)}>
          <bdi>{visible(name)}</bdi> · {format.bytes(data.size)}
          {there.includes(name) && ` · ${t.replaces}`}
        </Pill>
      ))}
    </Pill.Group>
  );
}

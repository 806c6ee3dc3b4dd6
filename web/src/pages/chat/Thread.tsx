/** The turns of a conversation; the end stays in sight while it is looked at. */
import { ActionIcon, Box, Button, Loader, Text, Tooltip, VisuallyHidden } from "@mantine/core";
import { IconArrowDown } from "@tabler/icons-react";
import { useEffect, useLayoutEffect, useRef, useState } from "react";

import { type ConversationDetail, isOpen } from "@/api/chat";
import { useText } from "@/i18n";
import { visible } from "@/parts/foreign";

import page from "./ChatPage.module.css";
import type { PanelTab } from "./Panel";
import type { Order, Sending } from "./sending";
import classes from "./Thread.module.css";
import { TurnView } from "./TurnView";
import { chat } from "./words";

const NEAR = 48; // pixels from the end that still count as its end

interface Props {
  conversation: ConversationDetail;
  /** The number of the turn that an address names. */
  wanted: number | undefined;
  sending: Sending;
  openPanel: (tab: PanelTab) => void;
  earlier: () => void;
}

export function Thread({ conversation, wanted, sending, openPanel, earlier }: Props) {
  const t = useText(chat);
  const box = useRef<HTMLDivElement>(null);
  const inner = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  const [away, setAway] = useState(false);
  const { pending, send } = sending;
  const from = (pending?.replaces ?? pending?.again)?.number ?? Infinity;
  const turns = conversation.turns.filter(({ number }) => number < from);
  const last = turns.at(-1);
  const free = pending === undefined && !(last && isOpen(last));

  const toEnd = () => box.current?.scrollTo({ top: box.current.scrollHeight });
  // Until who reads moves on, what is drawn later does not push the turn away that the address names.
  const there = conversation.turns.find(({ number }) => number === wanted)?.number;
  const held = useRef<number>(undefined);
  const toHeld = () => inner.current?.querySelector(`[data-turn="${held.current}"]`)?.scrollIntoView({ block: "start" });
  useLayoutEffect(() => {
    held.current = there;
    atEnd.current = held.current === undefined;
    if (atEnd.current) toEnd();
    else toHeld();
  }, [conversation.id, there]);
  useLayoutEffect(() => {
    if (pending) {
      atEnd.current = true;
      toEnd();
    }
  }, [pending]);
  useEffect(() => {
    if (!inner.current) return;
    const watching = new ResizeObserver(() => {
      if (held.current !== undefined) toHeld();
      else if (atEnd.current) toEnd();
    });
    watching.observe(inner.current);
    return () => watching.disconnect();
  }, []);
  const scrolled = () => {
    const { scrollTop = 0, scrollHeight = 0, clientHeight = 0 } = box.current ?? {};
    atEnd.current = scrollTop + clientHeight >= scrollHeight - NEAR;
    setAway(!atEnd.current);
  };
  const moves = () => void (held.current = undefined);
  const look = () => {
    const before = box.current?.scrollHeight ?? 0;
    const stop = new MutationObserver(() => {
      const { current } = box;
      if (current && current.scrollHeight > before) current.scrollTop += current.scrollHeight - before;
      stop.disconnect();
    });
    if (inner.current) stop.observe(inner.current, { childList: true });
    earlier();
  };
  return (
    <Box className={classes.thread}>
      <Box ref={box} className={page.scroll} role="region" aria-label={t.thread} tabIndex={0} onScroll={scrolled} onWheel={moves} onPointerDown={moves} onKeyDown={moves}>
        <Box ref={inner} className={page.column}>
          {conversation.earlier > 0 && (
            <Button variant="subtle" color="gray" size="compact-sm" mx="auto" mb="md" display="block" onClick={look}>
              {t.earlier(conversation.earlier)}
            </Button>
          )}
          {turns.map((turn) => (
            <TurnView key={turn.id} turn={turn} wanted={turn.number === wanted} newest={turn === last} free={free} send={send} openPanel={openPanel} />
          ))}
          {pending && <Pending pending={pending} />}
        </Box>
      </Box>
      {away && (
        <Tooltip label={t.latest}>
          <ActionIcon className={classes.latest ?? ""} variant="default" radius="xl" size="lg" aria-label={t.latest} onClick={toEnd}>
            <IconArrowDown size={18} />
          </ActionIcon>
        </Tooltip>
      )}
      <VisuallyHidden role="status">
        {pending || last?.state === "running" ? t.working : last?.state === "waiting" ? t.asks : last?.state === "done" ? t.finished : last ? t.states[last.state] : ""}
      </VisuallyHidden>
    </Box>
  );
}

/** What was just said, until the server has taken it. */
export function Pending({ pending }: { pending: Order }) {
  const t = useText(chat);
  return (
    <article className={classes.turn} aria-label={t.said}>
      <Box className={classes.said}>
        <Text component="div" className={classes.request ?? ""}>
          {visible(pending.text)}
        </Text>
      </Box>
      <Loader type="dots" size="sm" color="gray" mt="sm" aria-hidden />
    </article>
  );
}

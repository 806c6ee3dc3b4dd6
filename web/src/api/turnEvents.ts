/** The events of a turn as they come, until it has ended or waits. */
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useSyncExternalStore } from "react";

import { type ChatEvent, type ConversationDetail, eventsAddress, type Turn } from "./chat";
import { workspaceKey } from "./workspace";

const NAMES: readonly ChatEvent["event"][] = ["begin", "text", "call", "ask", "log", "step", "result", "file", "file_removed", "notice", "usage", "error", "end"];
const DRAW_MS = 60; // how often what has come is drawn
const AGAIN_MS = 2_000;

export interface LiveTurn {
  /** Nothing until the first has come. */
  events: readonly ChatEvent[] | undefined;
  /** The server does not answer at the moment. */
  lost: boolean;
}

const NOTHING: LiveTurn = { events: undefined, lost: false };
const live = new Map<string, LiveTurn>(); // by the id of a running turn
const listeners = new Set<() => void>();

function listen(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function publish(id: string, change: Partial<LiveTurn> | undefined): void {
  const before = live.get(id);
  if (change) live.set(id, { ...NOTHING, ...before, ...change });
  else live.delete(id);
  for (const listener of listeners) listener();
}

/** What has been received of a running turn, for whoever else draws it. */
export const useLiveEvents = (id: string): LiveTurn => useSyncExternalStore(listen, () => live.get(id) ?? NOTHING);

/** The events of a running turn; when it ends, what is known of its conversation is asked for again. */
export function useTurnEvents(turn: Turn, take: (events: readonly ChatEvent[], received: ChatEvent) => readonly ChatEvent[]): LiveTurn {
  const cache = useQueryClient();
  const running = turn.state === "running";
  const { id, conversation_id } = turn;
  const address = eventsAddress(turn);
  useEffect(() => {
    if (!running) return;
    let events: readonly ChatEvent[] = [];
    let drawing: number | undefined;
    let again: number | undefined;
    let source: EventSource | undefined;
    const draw = () => {
      drawing = undefined;
      publish(id, { events, lost: false });
    };
    const over = (received: Extract<ChatEvent, { event: "end" }>) => {
      source?.close();
      window.clearTimeout(drawing);
      draw();
      cache.setQueriesData<ConversationDetail>({ queryKey: ["chat", "one", conversation_id] }, (before) =>
        before && {
          ...before,
          turns: before.turns.map((one) => (one.id === id ? { ...one, state: received.state, answer: received.answer, events: [...events] } : one)),
        },
      );
      void cache.invalidateQueries({ queryKey: ["chat", "one", conversation_id] });
      void cache.invalidateQueries({ queryKey: ["chat", "list"] });
      void cache.invalidateQueries({ queryKey: ["chat", "questions"] });
    };
    const receive = (event: Event) => {
      if (!(event instanceof MessageEvent)) return; // the browser's own `error`
      const received = JSON.parse(event.data as string) as ChatEvent;
      if (received.event === "end") {
        over(received);
        return;
      }
      events = take(events, received);
      if (received.event === "result" || received.event === "file" || received.event === "file_removed") void cache.invalidateQueries({ queryKey: workspaceKey(conversation_id) });
      if (received.event === "result") void cache.invalidateQueries({ queryKey: ["chat", "trail", conversation_id] });
      drawing ??= window.setTimeout(draw, DRAW_MS);
    };
    const open = () => {
      source = new EventSource(address);
      for (const name of NAMES) source.addEventListener(name, receive);
      source.onerror = (event) => {
        if (event instanceof MessageEvent) return;
        publish(id, { lost: true });
        if (source?.readyState === EventSource.CLOSED) again = window.setTimeout(open, AGAIN_MS);
      };
      source.onopen = () => publish(id, { lost: false });
    };
    open();
    return () => {
      source?.close();
      window.clearTimeout(drawing);
      window.clearTimeout(again);
      publish(id, undefined);
    };
  }, [running, id, conversation_id, address, take, cache]);
  return useLiveEvents(id);
}

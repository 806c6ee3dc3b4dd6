/** A turn as it goes on: its events as they come, until it has ended or waits. */
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useSyncExternalStore } from "react";

import { type ChatEvent, type ConversationDetail, eventsAddress, type Turn } from "./chat";
import { workspaceKey } from "./workspace";

const NAMES: readonly ChatEvent["event"][] = ["begin", "text", "call", "ask", "log", "step", "result", "file", "file_removed", "notice", "usage", "error", "end"];
const DRAW_MS = 60; // how often what has come is drawn
const AGAIN_MS = 2_000;

export interface Heard {
  /** Nothing until the first has come. */
  events: readonly ChatEvent[] | undefined;
  /** The server does not answer at the moment. */
  lost: boolean;
}

const NOTHING: Heard = { events: undefined, lost: false };
const live = new Map<string, Heard>(); // by the id of a running turn
const listeners = new Set<() => void>();

function listen(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(id: string, change: Partial<Heard> | undefined): void {
  const before = live.get(id);
  if (change) live.set(id, { ...NOTHING, ...before, ...change });
  else live.delete(id);
  for (const listener of listeners) listener();
}

/** What has been heard of a running turn, for whoever else draws it. */
export const useLiveEvents = (id: string): Heard => useSyncExternalStore(listen, () => live.get(id) ?? NOTHING);

/** The events of a running turn; when it ends, what is known of its conversation is asked for again. */
export function useTurnEvents(turn: Turn, take: (events: readonly ChatEvent[], told: ChatEvent) => readonly ChatEvent[]): Heard {
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
      tell(id, { events, lost: false });
    };
    const over = (told: Extract<ChatEvent, { event: "end" }>) => {
      source?.close();
      window.clearTimeout(drawing);
      draw();
      cache.setQueriesData<ConversationDetail>({ queryKey: ["chat", "one", conversation_id] }, (before) =>
        before && {
          ...before,
          turns: before.turns.map((one) => (one.id === id ? { ...one, state: told.state, answer: told.answer, events: [...events] } : one)),
        },
      );
      void cache.invalidateQueries({ queryKey: ["chat", "one", conversation_id] });
      void cache.invalidateQueries({ queryKey: ["chat", "list"] });
    };
    const hear = (event: Event) => {
      if (!(event instanceof MessageEvent)) return; // the browser's own `error`
      const told = JSON.parse(event.data as string) as ChatEvent;
      if (told.event === "end") {
        over(told);
        return;
      }
      events = take(events, told);
      if (told.event === "result" || told.event === "file" || told.event === "file_removed") void cache.invalidateQueries({ queryKey: workspaceKey(conversation_id) });
      if (told.event === "result") void cache.invalidateQueries({ queryKey: ["chat", "trail", conversation_id] });
      drawing ??= window.setTimeout(draw, DRAW_MS);
    };
    const open = () => {
      source = new EventSource(address);
      for (const name of NAMES) source.addEventListener(name, hear);
      source.onerror = (event) => {
        if (event instanceof MessageEvent) return;
        tell(id, { lost: true });
        if (source?.readyState === EventSource.CLOSED) again = window.setTimeout(open, AGAIN_MS);
      };
      source.onopen = () => tell(id, { lost: false });
    };
    open();
    return () => {
      source?.close();
      window.clearTimeout(drawing);
      window.clearTimeout(again);
      tell(id, undefined);
    };
  }, [running, id, conversation_id, address, take, cache]);
  return useLiveEvents(id);
}

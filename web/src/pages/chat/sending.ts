/** Saying something: a conversation is begun when there is none, files are given first, and what fails can be sent again. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useCallback, useRef, useState } from "react";

import { beginConversation, type Conversation, type ConversationDetail, conversationQuery, putFile, retryTurn, say, type Turn } from "@/api/chat";

import { begun, type Choice } from "./choice";
import { setDraft } from "./drafts";

/** A file that is given with the next message. */
export interface Staged {
  name: string;
  data: File;
}

export interface Order {
  text: string;
  files: readonly Staged[];
  /** The turn that is said in other words. */
  replaces?: Turn | undefined;
  /** The newest turn, tried once more. */
  again?: Turn | undefined;
}

export type Sending = ReturnType<typeof useSending>;

/** `known` is the id of the conversation, which comes later; without one it is begun. */
export function useSending(known: string | undefined, conversation: ConversationDetail | undefined, choice: Choice) {
  const cache = useQueryClient();
  const navigate = useNavigate();
  const [staged, setStaged] = useState<readonly Staged[]>([]);
  const fresh = useRef<Conversation>(undefined);
  const place = known ?? "new";

  const mutation = useMutation({
    mutationFn: async ({ text, files, replaces, again }: Order) => {
      fresh.current = undefined;
      const id = known ?? (fresh.current = await beginConversation(begun(choice))).id;
      for (const { name, data } of files) await putFile(id, name, data);
      const kept = replaces ? namesOf(replaces, conversation) : [];
      return again ? retryTurn(id) : say({ id, text, files: [...kept, ...files.map(({ name }) => name)], replaces: replaces?.id });
    },
    onMutate: ({ replaces, again }) => {
      if (replaces || again) return;
      setDraft(place, "");
      setStaged([]);
    },
    onSuccess: async (turn, { replaces, again }) => {
      const id = turn.conversation_id;
      const from = (replaces ?? again)?.number ?? Infinity;
      await cache.cancelQueries({ queryKey: ["chat", "one", id] }); // what is on its way may be from before, and a first one is not asked for again
      const before: ConversationDetail | undefined = fresh.current && { ...fresh.current, turns: [], earlier: 0, files: [] };
      if (before) cache.setQueryData(conversationQuery(id).queryKey, { ...before, turns: [turn] });
      else
        cache.setQueriesData<ConversationDetail>({ queryKey: ["chat", "one", id] }, (kept) =>
          kept && { ...kept, turns: [...kept.turns.filter(({ number }) => number < from), turn] },
        );
      if (before) await navigate({ to: "/chat/$id", params: { id }, replace: true });
      void cache.invalidateQueries({ queryKey: ["chat"] });
    },
    onError: async (_, { text, files, replaces, again }) => {
      const begunHere = fresh.current;
      if (!replaces && !again) {
        setDraft(begunHere?.id ?? place, text);
        setStaged(files);
      }
      if (begunHere) {
        await cache.invalidateQueries({ queryKey: ["chat", "list"] });
        await navigate({ to: "/chat/$id", params: { id: begunHere.id }, replace: true });
      }
    },
  });

  const attach = useCallback((files: readonly File[]) => {
    setStaged((before) => {
      const named = files.map((data) => ({ name: data.name, data }));
      return [...before.filter(({ name }) => !named.some((one) => one.name === name)), ...named];
    });
  }, []);
  const leave = useCallback((name: string) => setStaged((before) => before.filter((one) => one.name !== name)), []);
  const { mutateAsync, reset } = mutation;
  return {
    staged,
    attach,
    leave,
    pending: mutation.isPending ? mutation.variables : undefined,
    error: mutation.error,
    forgive: reset,
    /** Whether it was taken. */
    send: useCallback((order: Order) => mutateAsync(order).then(() => true, () => false), [mutateAsync]),
  };
}

/** The files that came with a turn, as far as they are still there. */
function namesOf({ events }: Turn, conversation: ConversationDetail | undefined): string[] {
  const there = new Set(conversation?.files.map(({ name }) => name));
  return events.flatMap((event) => (event.event === "file" && event.origin === "user" && there.has(event.name) ? [event.name] : []));
}

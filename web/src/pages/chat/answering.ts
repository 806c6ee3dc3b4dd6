/** Answering a question of a turn: the turn as it is then, and its conversation asked for again. */
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { answerTurn, chatQuestionsQuery, type ConversationDetail, type Decision, type TurnPlace } from "@/api/chat";

export function useAnswering(turn: TurnPlace, call: string) {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: (said: Omit<Decision, "call">) => answerTurn(turn, { call, ...said }),
    onSuccess: (answered) =>
      cache.setQueriesData<ConversationDetail>({ queryKey: ["chat", "one", turn.conversation_id] }, (before) =>
        before && { ...before, turns: before.turns.map((one) => (one.id === answered.id ? answered : one)) },
      ),
    onSettled: () => Promise.all([cache.invalidateQueries({ queryKey: ["chat", "one", turn.conversation_id] }), cache.invalidateQueries(chatQuestionsQuery())]),
  });
}

/** Conversations with a model: what was said, what can be chosen, files, answers to questions, and the trail of skills. */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";

import { answer, api, whole } from "./client";
import { laterBy } from "./insights";
import type { components } from "./schema";

export type Conversation = components["schemas"]["ConversationShape"];
export type ConversationDetail = components["schemas"]["ConversationDetail"];
export type NewConversation = components["schemas"]["NewConversation"];
export type Turn = components["schemas"]["TurnShape"];
export type ChatFile = components["schemas"]["Attachment"];
export type ChatEvent = components["schemas"]["ChatEvent"];
export type ChatCommand = components["schemas"]["InvocableSkill"];
export type ChatQuestion = components["schemas"]["ConversationQuestion"];
export type OpenQuestion = components["schemas"]["TurnShape"]["questions"][number];
export type Decision = components["schemas"]["QuestionAnswer"];
export type ModelChoices = components["schemas"]["AvailableModels"];
export type TrailStep = components["schemas"]["SkillUsageEvent"];
export type TrailReport = components["schemas"]["SkillUsageReportShape"];
export type TurnSummary = components["schemas"]["TurnSummary"];
export type SkillUse = components["schemas"]["SkillUsage"];

/** How many turns are asked for at first, and with each look further back. */
export const TURNS = 40;

/** How many are asked for at most: where one of them is looked for. */
export const MOST_TURNS = 1000;

/** Whether the turn may still go on. */
export const isOpen = ({ state }: Pick<Turn, "state">): boolean => state === "running" || state === "waiting";

export const conversationsQuery = (text: string) =>
  queryOptions({
    queryKey: ["chat", "list", text],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/chat/conversations", { params: { query: { limit: 200, ...(text ? { text } : {}) } }, signal })),
    placeholderData: keepPreviousData,
  });

export const conversationQuery = (id: string, last: number = TURNS) =>
  queryOptions({
    queryKey: ["chat", "one", id, last],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/chat/conversations/{conversation}", { params: { path: { conversation: id }, query: { last } }, signal })),
    placeholderData: keepPreviousData, // of another conversation too: whoever draws it looks at its id
    // An answer may be given elsewhere: at a terminal, in another window.
    refetchInterval: ({ state: { data } }) => (data?.turns.at(-1)?.state === "waiting" ? 3_000 : false),
  });

export const modelsQuery = () =>
  queryOptions({ queryKey: ["chat", "models"], queryFn: ({ signal }) => answer(api.GET("/api/v1/chat/models", { signal })), staleTime: 60_000 });

/** What the conversations of who looks wait for. */
export const chatQuestionsQuery = () =>
  queryOptions({
    queryKey: ["chat", "questions"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/chat/questions", { signal })),
    refetchInterval: 2_000, // a model asks at any moment
  });

/** The skills that a person may start with `/name`. */
export const commandsQuery = (text: string, conversation: string | undefined) =>
  queryOptions({
    queryKey: ["chat", "commands", text, conversation],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/chat/commands", { params: { query: { text, limit: 8, ...(conversation ? { conversation } : {}) } }, signal })),
    placeholderData: keepPreviousData,
  });

export const trailQuery = (conversation: string) =>
  queryOptions({
    queryKey: ["chat", "trail", conversation],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/chat/trail", { params: { query: { conversation, limit: 1000 } }, signal })),
  });

export const reportQuery = () =>
  queryOptions({ queryKey: ["chat", "report"], queryFn: ({ signal }) => answer(api.GET("/api/v1/chat/trail/report", { signal })) });

/** How far a skill gets in a chat, and that its use was refused. */
export type Stage = "offered" | "loaded" | "followed" | "succeeded" | "refused";

export interface TurnNarrowing {
  skill?: string | undefined;
  stage?: Stage | undefined;
  agent?: string | undefined;
  model?: string | undefined;
  failed?: true | undefined;
  /** The first and the last day, of UTC. */
  since?: string | undefined;
  until?: string | undefined;
}

/** The turns of one's own conversations that a figure counts. */
export const turnsQuery = ({ since, until, ...narrowing }: TurnNarrowing, limit = 50) =>
  infiniteQueryOptions({
    queryKey: ["chat", "turns", since, until, narrowing, limit],
    queryFn: ({ signal, pageParam }) => {
      const given = JSON.parse(JSON.stringify(narrowing)) as { skill?: string; stage?: Stage; agent?: string; model?: string; failed?: true }; // without what is undefined
      const time = { ...(since ? { since: `${since}T00:00:00Z` } : {}), ...(until ? { until: `${laterBy(1, until)}T00:00:00Z` } : {}) };
      return whole(api.GET("/api/v1/chat/turns", { params: { query: { ...given, ...time, page: pageParam, limit } }, signal }));
    },
    initialPageParam: 1,
    getNextPageParam: ({ meta }) => (meta.page < meta.totalPages ? meta.page + 1 : undefined),
    placeholderData: keepPreviousData,
  });

export const beginConversation = (body: NewConversation) => answer(api.POST("/api/v1/chat/conversations", { body }));

export const changeConversation = ({ id, ...body }: { id: string; title?: string; model?: string }) =>
  answer(api.PATCH("/api/v1/chat/conversations/{conversation}", { params: { path: { conversation: id } }, body }));

export const deleteConversation = (id: string) => api.DELETE("/api/v1/chat/conversations/{conversation}", { params: { path: { conversation: id } } });

export interface Saying {
  id: string;
  text: string;
  files: string[];
  /** The turn that it stands in place of. */
  replaces?: string | undefined;
}

export const say = ({ id, text, files, replaces }: Saying) =>
  answer(
    api.POST("/api/v1/chat/conversations/{conversation}/messages", {
      params: { path: { conversation: id } },
      body: { text, files, ...(replaces ? { replaces } : {}) },
    }),
  );

export const retryTurn = (id: string) => answer(api.POST("/api/v1/chat/conversations/{conversation}/retry", { params: { path: { conversation: id } } }));

/** Which turn of which conversation. */
export type TurnPlace = Pick<Turn, "conversation_id" | "id">;

const turnPath = ({ conversation_id, id }: TurnPlace) => ({ path: { conversation: conversation_id, turn: id } });

export const stopTurn = (turn: Turn) => answer(api.POST("/api/v1/chat/conversations/{conversation}/turns/{turn}/stop", { params: turnPath(turn) }));

export const answerTurn = (turn: TurnPlace, body: Decision) =>
  answer(api.POST("/api/v1/chat/conversations/{conversation}/turns/{turn}/answers", { params: turnPath(turn), body }));

/** Where the events of a turn are streamed. */
export const eventsAddress = ({ conversation_id, id }: Turn): string =>
  `/api/v1/chat/conversations/${encodeURIComponent(conversation_id)}/turns/${encodeURIComponent(id)}/events`;

/** Where a file of a conversation is, for downloads. */
export const chatFileAddress = (id: string, name: string): string =>
  `/api/v1/chat/conversations/${encodeURIComponent(id)}/files/${name.split("/").map(encodeURIComponent).join("/")}`;

/** Give a conversation a file. */
export async function putFile(id: string, name: string, data: Blob): Promise<ChatFile> {
  const path = { conversation: id, path: name };
  const sent = { body: data as unknown as string, bodySerializer: () => data, headers: { "Content-Type": "application/octet-stream" } };
  return answer(api.PUT("/api/v1/chat/conversations/{conversation}/files/{path}", { params: { path }, ...sent }));
}

export const deleteFile = ({ id, name }: { id: string; name: string }) =>
  api.DELETE("/api/v1/chat/conversations/{conversation}/files/{path}", { params: { path: { conversation: id, path: name } } });

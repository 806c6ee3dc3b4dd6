/** Agents, and the exact prompt that each comes to. */
import { keepPreviousData, queryOptions } from "@tanstack/react-query";

import { answer, api, whole } from "./client";
import type { components } from "./schema";

export type Agent = components["schemas"]["AgentDetail"];
export type AgentBody = components["schemas"]["AgentBody"];
export type AgentPrompt = components["schemas"]["AgentPrompt"];
export type AgentShare = components["schemas"]["SkillPromptShare"];
export type CommandRuling = components["schemas"]["CommandRuling"];
type CallCheck = components["schemas"]["ToolCallCheck"];
export type ToolName = CallCheck["tool"];

/** The agent as a request writes it. */
export function agentBody({ name, description, system_prompt, model, settings, skills }: Agent): AgentBody {
  return {
    name,
    description,
    system_prompt,
    model,
    settings,
    skills: skills.map(({ skill_id, version_lock, auto_update }) => ({ skill: skill_id, version_lock, auto_update })),
  };
}

export type MachineAgent = components["schemas"]["MachineAgent"];

/** The coding agents of this machine with the skills in their folders; none for who does not sit there. */
export const codingAgentsQuery = () =>
  queryOptions({
    queryKey: ["coding-agents"],
    queryFn: async ({ signal }) => (await answer(api.GET("/api/v1/coding-agents", { signal }))).agents,
    staleTime: 10_000,
  });

/** Put a skill into the folder of a coding agent, or take it out. */
export const linkSkill = (body: components["schemas"]["SkillInAgent"]) => answer(api.PUT("/api/v1/coding-agents", { body }));

export const agentsQuery = () =>
  queryOptions({
    queryKey: ["agents", "list"],
    queryFn: ({ signal }) => whole(api.GET("/api/v1/agents", { params: { query: { limit: 200 } }, signal })),
  });

export const agentQuery = (id: string) =>
  queryOptions({
    queryKey: ["agents", "one", id],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/agents/{agent}", { params: { path: { agent: id } }, signal })),
  });

/** The prompt of an agent as it is written now, whether or not it is kept. */
export const promptQuery = (body: AgentBody, request: string) =>
  queryOptions({
    queryKey: ["agents", "prompt", body, request],
    queryFn: ({ signal }) => answer(api.POST("/api/v1/agents/prompt-preview", { body: { ...body, request: request || null }, signal })),
    placeholderData: keepPreviousData,
    staleTime: 30_000,
  });

/** What of an agent its prompt depends on: rules that cannot be read yet do not hide it. */
export const promptPart = (body: AgentBody): AgentBody => ({ ...body, settings: { ...body.settings, commands: null, tool_permissions: null } });

/** What rules that need not be kept say of a call; without an argument, whether the rules can be read. */
export const ruleCheckQuery = ({ rules, tool, argument, switches }: { rules: CallCheck["commands"]; tool: ToolName; argument: string; switches: CallCheck["tool_permissions"] }) =>
  queryOptions({
    queryKey: ["agents", "check", rules, tool, argument, switches],
    queryFn: ({ signal }) => answer(api.POST("/api/v1/agents/command-check", { body: { argument: argument || ".", tool, commands: rules, tool_permissions: switches }, signal })),
    retry: false,
    staleTime: 30_000,
  });

/** Save an agent: a new one, or what an old one shall be. */
export const keepAgent = ({ id, body }: { id: string | undefined; body: AgentBody }) =>
  id === undefined ? answer(api.POST("/api/v1/agents", { body })) : answer(api.PUT("/api/v1/agents/{agent}", { params: { path: { agent: id } }, body }));

export const forgetAgent = (id: string) => answer(api.DELETE("/api/v1/agents/{agent}", { params: { path: { agent: id } } }));

/** With whom the next conversation is begun: an agent, or a model with skills and rules of its own. */
import { useLocalStorage } from "@mantine/hooks";

import type { NewConversation } from "@/api/chat";
import type { ToolRule } from "@/parts/ToolRules";

export interface Choice {
  how: "agent" | "own";
  agent: string;
  model: string;
  skills: { id: string; name: string }[];
  prompt: string;
  askFirst: boolean;
  /** The model gets a shell, code and file tools. */
  workspace: boolean;
  /** A folder of the server's machine to work in, for who sits there; empty for one of the conversation's own. */
  folder: string;
  /** What holds for single tools. */
  tools: Record<string, ToolRule>;
}

const NOTHING: Choice = { how: "own", agent: "", model: "", skills: [], prompt: "", askFirst: false, workspace: true, folder: "", tools: {} };

export type Choose = (change: Partial<Choice>) => void;

/** The choice, kept in this browser for the next time. */
export function useChoice(): [Choice, Choose] {
  const [choice, setChoice] = useLocalStorage<Choice>({ key: "skillyard-chat", defaultValue: NOTHING, getInitialValueInEffect: false });
  const whole = { ...NOTHING, ...choice };
  return [whole, (change) => setChoice((before) => ({ ...NOTHING, ...before, ...change }))];
}

/** The conversation that a choice means, as a request writes it. */
export function begun({ how, agent, model, skills, prompt, askFirst, workspace, folder, tools }: Choice): NewConversation {
  const common = { title: "", ...(model ? { model } : {}), ...(folder.trim() ? { folder: folder.trim() } : {}) };
  if (how === "agent" && agent) return { ...common, agent };
  return {
    ...common,
    settings: {
      system_prompt: prompt,
      skills: skills.map(({ id }) => id),
      permissions: askFirst ? { "*": "ask" } : {},
      pinned: [],
      tools: true,
      workspace,
      tool_permissions: tools,
      commands: {},
      index_tokens: 2000,
      history_tokens: 60_000,
      temperature: null,
      pictures: true,
    },
  };
}

import { words } from "@/i18n";

/** Words about the coding agents of this machine. */
export const codingAgents = words(
  {
    title: "Agents on this machine",
    why: "A skill that is turned on is placed in the skill folder of the agent and follows updates. Restart an agent that is already running.",
    listWhy: "Programs such as Claude Code with their own skill folders, and the skills that Skillyard placed there.",
    none: "No coding agent was found on this machine.",
    empty: "no skill of this server",
    linkIn: (skill: string, agent: string) => `${skill} in ${agent}`,
    takeOut: (skill: string, agent: string) => `Remove ${skill} from ${agent}`,
    states: { ok: "", edited: "edited there", missing: "removed there", foreign: "replaced there", withdrawn: "" },
    stateWhy: {
      edited: "The copy in the agent's folder was edited. It is not overwritten: `skillyard adopt` makes a version of it.",
      missing: "Somebody removed it from the agent's folder.",
      foreign: "Something else is there now. Skillyard did not put it there and does not touch it.",
    },
    done: (skill: string, agent: string) => `${skill} was added to ${agent}`,
    gone: (skill: string, agent: string) => `${skill} was removed from ${agent}`,
    refused: "Not changed",
  },
  {
    title: "本机上的智能体",
    why: "打开后，技能会放进该智能体自己的技能文件夹，并随更新而更新。正在运行的智能体可能需要重新启动。",
    listWhy: "Claude Code 这类有自己技能文件夹的程序，以及 Skillyard 放进去的技能。",
    none: "本机上没有找到编程智能体。",
    empty: "没有这台服务器的技能",
    linkIn: (skill, agent) => `在 ${agent} 中使用 ${skill}`,
    takeOut: (skill, agent) => `从 ${agent} 中移除 ${skill}`,
    states: { ok: "", edited: "在那里被改过", missing: "在那里被删除", foreign: "在那里被替换", withdrawn: "" },
    stateWhy: {
      edited: "智能体文件夹中的副本被改过，不会被覆盖：`skillyard adopt` 可把它变成新版本。",
      missing: "有人把它从智能体的文件夹中删除了。",
      foreign: "那里现在是别的内容，不是 Skillyard 放的，会保持原样。",
    },
    done: (skill, agent) => `${skill} 已放进 ${agent} 的文件夹`,
    gone: (skill, agent) => `${skill} 已从 ${agent} 的文件夹移除`,
    refused: "保持原样",
  },
);

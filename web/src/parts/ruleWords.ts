import { labels, words } from "@/i18n";

/** Words about rules for tools: the levels that have them, and what they say. */
export const ruleWords = words(
  {
    levels: labels({ operator: "operator", project: "project", agent: "agent", conversation: "conversation", skill: "skill" }),
    by: (level: string) => `Rule of the ${level}`,
    says: { allow: "allowed", ask: "asks", deny: "denied" },
    choices: { allow: "allow", ask: "ask", deny: "deny" },
  },
  {
    levels: labels({ operator: "运维人员", project: "项目", agent: "智能体", conversation: "对话", skill: "技能" }),
    by: (level) => `${level}的规则`,
    says: { allow: "允许", ask: "询问", deny: "拒绝" },
    choices: { allow: "允许", ask: "询问", deny: "拒绝" },
  },
);

import { words } from "@/i18n";

export const verdict = words(
  {
    once: "Allow once",
    more: "Allow for longer",
    workspace: "Always allow here",
    reject: "Refuse",
    may: "What it may do",
    files: (count: number) => `Files (${count})`,
    content: "Content",
    read: "Read the skill",
  },
  {
    once: "允许一次",
    more: "允许更长时间",
    workspace: "在此始终允许",
    reject: "拒绝",
    may: "它可以做什么",
    files: (count) => `文件（${count}）`,
    content: "内容",
    read: "查看技能",
  },
);

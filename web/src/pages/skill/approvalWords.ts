import { words } from "@/i18n";

export const approval = words(
  {
    asks: "A rule requires approval before an agent uses this skill",
    why: "Read its instructions and files first. An approval covers exactly this content; changed content needs a new approval.",
    whyNot: "Read its instructions and files here. An administrator approves it.",
    approve: "Approve this content",
    approved: "This content is approved",
    approvedWhy: "Agents of this workspace may use it until its content changes.",
    done: "Approved for this workspace",
    look: "View approvals",
    content: "Content",
  },
  {
    asks: "智能体使用这个技能前需要有人确认",
    why: "请先阅读它的说明和文件。批准只对当前内容有效：内容变化后会再次询问。",
    whyNot: "可以在这里阅读它的说明和文件。由管理员批准。",
    approve: "批准当前内容",
    approved: "当前内容已批准",
    approvedWhy: "在内容变化之前，此工作区的智能体可以使用它。",
    done: "已为此工作区批准",
    look: "查看审批",
    content: "内容",
  },
);

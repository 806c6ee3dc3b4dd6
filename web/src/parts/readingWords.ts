import { words } from "@/i18n";

export const reading = words(
  {
    how: "How the text is shown",
    drawn: "Formatted",
    model: "As the model reads it",
    hidden: (count: number) => (count === 1 ? "1 part of this text is hidden when formatted" : `${count} parts of this text are hidden when formatted`),
    more: (count: number) => `and ${count} more`,
    reveal: "Show the full text",
    tokens: (count: string) => `${count} tokens: exactly what a model gets when it loads the skill outside a workspace.`,
    label: "The text as the model reads it",
  },
  {
    how: "文本的显示方式",
    drawn: "排版后",
    model: "模型读到的原文",
    hidden: (count) => `此文本有 ${count} 处未显示`,
    more: (count) => `另有 ${count} 处`,
    reveal: "显示全文",
    tokens: (count) => `${count} 个 token。在工作区之外加载此技能时，模型得到的正是这段文本。`,
    label: "模型读到的文本",
  },
);

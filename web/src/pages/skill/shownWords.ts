import { words } from "@/i18n";

export const shown = words(
  {
    title: "Registry listing",
    hint: "What programs and other clients are shown. The values of SKILL.md apply unless you edit them; the folder of the skill is not changed.",
    fields: {
      category: "Category",
      tags: "Tags",
      author: "Author",
      homepageUrl: "Homepage",
      documentationUrl: "Documentation",
      iconUrl: "Icon URL",
    },
    tagsHint: "Press Enter after each",
    addressHint: "https://…",
    edited: "edited",
    edit: "Edit",
    ask: (name: string) => `Registry listing of ${name}`,
    back: "Reset to SKILL.md",
    saved: "Saved",
    nothing: "none",
  },
  {
    title: "在注册表中",
    hint: "程序和其他客户端看到的内容：默认为 SKILL.md 的内容，除非你另行指定。技能文件夹不会被修改。",
    fields: {
      category: "分类",
      tags: "标签",
      author: "作者",
      homepageUrl: "主页",
      documentationUrl: "文档",
      iconUrl: "图标地址",
    },
    tagsHint: "每个标签后按回车",
    addressHint: "https://…",
    edited: "已修改",
    edit: "编辑",
    ask: (name: string) => `${name} 的显示信息`,
    back: "恢复 SKILL.md 的内容",
    saved: "已保存",
    nothing: "无",
  },
);

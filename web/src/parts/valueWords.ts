import { words } from "@/i18n";

export const value = words(
  { picture: "Image made by the skill", emptyList: "empty list", emptyObject: "empty" },
  { picture: "技能生成的图片", emptyList: "空列表", emptyObject: "没有内容" },
);

import { words } from "@/i18n";

export const value = words(
  { picture: "A picture that the skill made", emptyList: "an empty list", emptyObject: "nothing in it" },
  { picture: "技能生成的图片", emptyList: "空列表", emptyObject: "没有内容" },
);

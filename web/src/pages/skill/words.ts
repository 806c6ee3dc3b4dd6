import { words } from "@/i18n";

export const skill = words(
  {
    instructions: "Instructions",
  },
  {
    instructions: "说明",
  },
);

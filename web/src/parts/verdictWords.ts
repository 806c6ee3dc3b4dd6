import { words } from "@/i18n";

export const verdict = words(
  { once: "Allow once", more: "Allow for longer", workspace: "Always allow here", reject: "Refuse" },
  { once: "允许一次", more: "允许更长时间", workspace: "在此始终允许", reject: "拒绝" },
);

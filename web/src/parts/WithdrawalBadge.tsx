/** That the version of a skill should not be used any more, and why. */
import { Badge, Tooltip } from "@mantine/core";
import { IconArchive } from "@tabler/icons-react";

import type { SkillRisk } from "@/api/verdicts";
import { useText } from "@/i18n";

import { visible } from "./foreign";
import { scanned } from "./scanWords";

export function WithdrawalBadge({ withdrawal, why }: { withdrawal: NonNullable<SkillRisk["withdrawal"]>; why: string | null | undefined }) {
  const t = useText(scanned);
  return (
    <Tooltip label={visible(why ?? t.withdrawn[withdrawal])} multiline maw={360}>
      <Badge color={withdrawal === "deprecated" ? "yellow" : "red"} leftSection={<IconArchive size={13} />}>
        {t.withdrawn[withdrawal]}
      </Badge>
    </Tooltip>
  );
}

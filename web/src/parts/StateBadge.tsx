/** Whether a skill is offered to agents, by colour, mark and word. */
import { Badge, Tooltip } from "@mantine/core";
import { IconBan, IconCircleCheck, IconCircleX, IconEyeOff, IconHelpCircle, IconStack2, type Icon } from "@tabler/icons-react";

import type { Entry } from "@/api/catalog";
import { useText } from "@/i18n";
import { catalog } from "@/pages/catalog/words";

const LOOKS: Record<Entry["status"], { color: string; icon: Icon }> = {
  ok: { color: "pine", icon: IconCircleCheck },
  disabled: { color: "gray", icon: IconEyeOff },
  denied: { color: "red", icon: IconBan },
  shadowed: { color: "yellow", icon: IconStack2 },
  broken: { color: "red", icon: IconCircleX },
};

export function StateBadge({ status, reason }: { status: Entry["status"]; reason?: string | null }) {
  const t = useText(catalog);
  const { color, icon: Icon } = LOOKS[status];
  const badge = (
    <Badge color={color} leftSection={<Icon size={13} />}>
      {t.states[status]}
    </Badge>
  );
  return reason ? <Tooltip label={reason}>{badge}</Tooltip> : badge;
}

/** That a rule asks before an agent uses the skill. */
export function AsksBadge() {
  const t = useText(catalog);
  return (
    <Tooltip label={t.asksWhy}>
      <Badge color="yellow" leftSection={<IconHelpCircle size={13} />}>
        {t.asks}
      </Badge>
    </Tooltip>
  );
}

/** How a run stands, by colour, mark and word. */
import { Badge, Loader, Tooltip } from "@mantine/core";
import { IconAlertTriangle, IconBan, IconCircleCheck, IconClock, IconPlugConnectedX, type Icon } from "@tabler/icons-react";

import type { RunState } from "@/api/runStates";
import { useText } from "@/i18n";

import { runs } from "./words";

const LOOKS: Record<Exclude<RunState, "running">, { color: string; icon: Icon }> = {
  queued: { color: "gray", icon: IconClock },
  succeeded: { color: "pine", icon: IconCircleCheck },
  failed: { color: "red", icon: IconAlertTriangle },
  cancelled: { color: "gray", icon: IconBan },
  interrupted: { color: "yellow", icon: IconPlugConnectedX },
};

export function RunStateBadge({ state }: { state: RunState }) {
  const t = useText(runs);
  const look = state === "running" ? undefined : LOOKS[state];
  return (
    <Tooltip label={t.stateWhy[state]}>
      <Badge
        color={look?.color ?? "blue"}
        leftSection={look ? <look.icon size={13} /> : <Loader size={10} color="currentColor" aria-hidden />}
      >
        {t.states[state]}
      </Badge>
    </Tooltip>
  );
}

/** Lets schedules rest, go on, or be forgotten. */
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { pauseSchedule, removeSchedule, type Schedule, takeOverSchedule } from "@/api/schedules";
import { useText } from "@/i18n";
import { visible } from "@/parts/foreign";
import { notify, notifyProblem } from "@/parts/notify";
import { TakeBack } from "@/parts/TakeBack";

import { schedules } from "./words";

/** Pause a schedule that waits; let one that is paused go on; take over one that is held. */
export function usePausing() {
  const t = useText(schedules);
  const cache = useQueryClient();
  return useMutation({
    mutationFn: ({ name, paused, held }: Schedule) => (held !== null ? takeOverSchedule(name) : pauseSchedule({ name, paused: !paused })),
    onSuccess: ({ name, paused }) => notify({ message: (paused ? t.paused : t.resumed)(visible(name)) }),
    onError: notifyProblem,
    onSettled: () => cache.invalidateQueries({ queryKey: ["schedules"] }),
  });
}

interface Props {
  /** The one that is to be removed; without one nothing is asked. */
  chosen: Schedule | undefined;
  leave: () => void;
  /** Called when it is gone. */
  gone?: () => unknown;
}

export function Remove({ chosen, leave, gone }: Props) {
  const t = useText(schedules);
  return (
    <TakeBack
      chosen={chosen}
      leave={leave}
      act={async ({ name }) => {
        await removeSchedule(name);
        notify({ message: t.removed });
        await gone?.();
      }}
      stale={["schedules", "list"]}
      title={t.removeAsk}
      action={t.remove}
    >
      {({ name }) => t.removeWhy(visible(name))}
    </TakeBack>
  );
}

/** Lets schedules rest, go on, or be forgotten. */
import { type Icon, IconPlayerPause, IconPlayerPlay, IconUserShare } from "@tabler/icons-react";
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { pauseSchedule, removeSchedule, runSchedule, type Schedule, takeOverSchedule } from "@/api/schedules";
import { useText } from "@/i18n";
import { visible } from "@/parts/foreign";
import { notify, notifyProblem } from "@/parts/notify";
import { TakeBack } from "@/parts/TakeBack";

import type { Standing } from "./when";
import { schedules } from "./words";

/** Pause a schedule that waits; let one that is paused go on, and one that is held go on for whoever asks. */
export function useChanging() {
  const t = useText(schedules);
  const cache = useQueryClient();
  return useMutation({
    mutationFn: ({ name, paused, held }: Schedule) => (held === null ? pauseSchedule({ name, paused: !paused }) : takeOverSchedule(name)),
    onSuccess: ({ name, paused }, { held }) => notify({ message: (held !== null ? t.takenOver : paused ? t.paused : t.resumed)(visible(name)) }),
    onError: notifyProblem,
    onSettled: () => cache.invalidateQueries({ queryKey: ["schedules"] }),
  });
}

/** Begin a run of a schedule now. */
export function useRunningNow() {
  const t = useText(schedules);
  const cache = useQueryClient();
  return useMutation({
    mutationFn: ({ name }: Schedule) => runSchedule(name),
    onSuccess: (_, { name }) => notify({ message: t.begun(visible(name)) }),
    onError: notifyProblem,
    onSettled: () => Promise.all([cache.invalidateQueries({ queryKey: ["schedules"] }), cache.invalidateQueries({ queryKey: ["runs", "list"] })]),
  });
}

/** What it is called, and its picture. */
export const CHANGES: Readonly<Record<Exclude<Standing, "over">, { word: "pause" | "resume" | "takeOver"; icon: Icon }>> = {
  waits: { word: "pause", icon: IconPlayerPause },
  paused: { word: "resume", icon: IconPlayerPlay },
  held: { word: "takeOver", icon: IconUserShare },
};

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

/** When a schedule comes due, in words, and how it stands. */
import type { Schedule } from "@/api/schedules";
import { LOCALES, useLanguage, useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { visible } from "@/parts/foreign";

import { inWords } from "./cron";
import { schedules } from "./words";

export type Standing = "waits" | "paused" | "held" | "over";

export const standing = ({ next_at, paused, held }: Schedule): Standing =>
  next_at === null ? "over" : held !== null ? "held" : paused ? "paused" : "waits";

/** Gives the sentence of a schedule: `Every day at 08:00`. */
export function useWhen(): (schedule: Pick<Schedule, "cron" | "time_zone" | "next_at" | "last_at">) => string {
  const t = useText(schedules);
  const format = useFormat();
  const locale = LOCALES[useLanguage()];
  return ({ cron, time_zone, next_at, last_at }) => {
    if (cron !== null) return inWords(cron, t.when, locale) ?? t.when.cron(visible(cron));
    const moment = next_at ?? last_at;
    return moment === null ? t.when.onceOver : t.when.once(format.timeIn(moment, time_zone));
  };
}

/** Cron expressions of five fields: the usual ones put together from what people choose, and described in words. */
import type { Said } from "@/i18n";

import type { schedules } from "./words";

export const RHYTHMS = ["day", "workdays", "week", "month", "hour", "own"] as const;
export type Rhythm = (typeof RHYTHMS)[number];

export interface Chosen {
  rhythm: Rhythm;
  /** As 08:00; of an hour only its minutes count. */
  time: string;
  /** 0 is Sunday. */
  weekday: number;
  day: number;
  /** An expression of one's own. */
  own: string;
}

const DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"] as const;
const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"] as const;

/** What was chosen, as cron says it; nothing while it cannot be meant. */
export function compose({ rhythm, time, weekday, day, own }: Chosen): string | undefined {
  if (rhythm === "own") return own.trim() || undefined;
  const [hour, minute] = /^(\d{1,2}):(\d{2})/.exec(time)?.slice(1).map(Number) ?? [];
  if (hour === undefined || minute === undefined) return undefined;
  const at = `${minute} ${hour}`;
  return { hour: `${minute} * * * *`, day: `${at} * * *`, workdays: `${at} * * mon-fri`, week: `${at} * * ${DAYS[weekday] ?? "mon"}`, month: `${at} ${day} * *` }[rhythm];
}

/** What somebody would choose for an expression: one of the usual ones, or one of their own. */
export function decompose(cron: string): Chosen {
  const usual = { time: "08:00", weekday: 1, day: 1, own: "" };
  for (const rhythm of RHYTHMS) {
    const [minute = "", hour = "", day = "", , weekday = ""] = cron.split(/\s+/);
    const chosen: Chosen = {
      ...usual,
      rhythm,
      time: `${(rhythm === "hour" ? "8" : hour).padStart(2, "0")}:${minute.padStart(2, "0")}`,
      weekday: Math.max(0, (DAYS as readonly string[]).indexOf(weekday)),
      day: Number(day) || 1,
    };
    if (rhythm !== "own" && compose(chosen) === cron) return chosen;
  }
  return { ...usual, rhythm: "own", own: cron };
}

type Words = Said<(typeof schedules)["en"]>["when"];

/** Numbers that a field lists, as `1`, `mon-fri` or `8,12,18`; nothing for anything else. */
function listed(field: string, names: readonly string[] = [], first = 0): number[] | undefined {
  const numbers = field.split(",").flatMap((part) => {
    const [from, to = from] = part.split("-").map((word) => (names.includes(word) ? names.indexOf(word) + first : /^\d+$/.test(word) ? Number(word) : NaN));
    if (from === undefined || to === undefined || !(from <= to) || to - from > 60) return [NaN];
    return Array.from({ length: to - from + 1 }, (_, step) => from + step);
  });
  return numbers.some(Number.isNaN) ? undefined : [...new Set(numbers)];
}

/** Every how many, when the field says so and that comes out even. */
function every(field: string, of: number): number | undefined {
  const step = field === "*" ? 1 : Number(/^\*\/(\d+)$/.exec(field)?.[1]);
  return step > 0 && of % step === 0 ? step : undefined;
}

const two = (number: number) => String(number).padStart(2, "0");

/** A cron expression in words; nothing for those that no short sentence says. */
export function inWords(cron: string, words: Words, locale: string): string | undefined {
  const [minute, hour, day, month, weekday] = cron.toLowerCase().trim().split(/\s+/);
  if (!minute || !hour || !day || !month || !weekday) return undefined;
  const list = new Intl.ListFormat(locale, { type: "conjunction" });
  const daily = day === "*" && month === "*" && weekday === "*";
  const minutes = every(minute, 60);
  if (minutes && hour === "*" && daily) return words.minutes(minutes);
  const [at, ...others] = listed(minute) ?? [];
  if (at === undefined || others.length > 0) return undefined;
  const hours = every(hour, 24);
  if (hours && daily) return words.hours(hours, two(at));
  const times = listed(hour)?.map((one) => `${two(one)}:${two(at)}`);
  if (!times || times.length > 4) return undefined;
  const time = list.format(times);
  if (daily) return words.daily(time);
  if (day === "*" && month === "*") return onDays(listed(weekday, DAYS), time, words, locale, list);
  const [date, ...dates] = listed(day) ?? [];
  if (weekday !== "*" || date === undefined || dates.length > 0) return undefined;
  if (month === "*") return words.monthly(date, time);
  const months = listed(month, MONTHS, 1);
  if (months?.length !== 1) return undefined;
  const named = new Intl.DateTimeFormat(locale, { day: "numeric", month: "long", timeZone: "UTC" });
  return words.yearly(named.format(Date.UTC(2024, (months[0] ?? 1) - 1, date)), time);
}

function onDays(days: number[] | undefined, time: string, words: Words, locale: string, list: Intl.ListFormat): string | undefined {
  if (!days) return undefined;
  const found = [...new Set(days.map((day) => day % 7))].sort((one, two) => ((one + 6) % 7) - ((two + 6) % 7));
  if (found.length === 7) return words.daily(time);
  if (found.join() === "1,2,3,4,5") return words.workdays(time);
  return words.weekly(list.format(found.map((day) => weekdayName(day, locale))), time);
}

/** The name of a day of the week; 0 is Sunday. */
export const weekdayName = (day: number, locale: string): string =>
  new Intl.DateTimeFormat(locale, { weekday: "long", timeZone: "UTC" }).format(Date.UTC(2023, 0, 1 + day));

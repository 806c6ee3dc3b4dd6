/** Numbers, sizes and times as people of each language write them. */
import { type Language, LOCALES, useLanguage } from "./index";

const STEPS: readonly [Intl.RelativeTimeFormatUnit, number][] = [
  ["year", 31_536_000],
  ["month", 2_592_000],
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
];

export interface Format {
  /** 12,345 */
  number: (value: number) => string;
  /** 12.3 KB (a kilobyte is 1024 bytes) */
  bytes: (value: number) => string;
  /** 21 Nov 2026, 08:00 */
  time: (value: string | number | Date) => string;
  /** Sat, 21 Nov 2026, 08:00 as clocks in a time zone show it; where the browser does not know the zone, as this one does. */
  timeIn: (value: string | number | Date, zone: string) => string;
  /** 3 hours ago */
  ago: (value: string | number | Date) => string;
  /** Whether it was before now. */
  past: (value: string | number | Date) => boolean;
  /** 1.2 s, from milliseconds */
  duration: (milliseconds: number) => string;
  /** 93 % from 0.93 */
  share: (value: number) => string;
  /** 12 Nov, from a day of UTC as 2026-11-12 */
  day: (value: string) => string;
  /** today, 3 days ago, from a day of UTC as 2026-11-12 */
  dayAgo: (value: string) => string;
  /** 1.2K: large numbers where there is little room */
  short: (value: number) => string;
  /** US$1.20, from an amount and the name of its currency */
  money: (value: number, currency: string) => string;
}

function made(language: Language): Format {
  const locale = LOCALES[language];
  const number = new Intl.NumberFormat(locale, { maximumFractionDigits: 1 });
  const time = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "short" });
  const ago = new Intl.RelativeTimeFormat(locale, { numeric: "auto" });
  const day = new Intl.DateTimeFormat(locale, { day: "numeric", month: "short", timeZone: "UTC" });
  const short = new Intl.NumberFormat(locale, { notation: "compact", maximumFractionDigits: 1 });
  const share = new Intl.NumberFormat(locale, { style: "percent", maximumFractionDigits: 0 });
  const valid = (value: string | number | Date) => {
    const date = new Date(value);
    return Number.isNaN(date.getTime()) ? undefined : date;
  };
  return {
    number: (value) => number.format(value),
    bytes: (value) => {
      if (value < 1024) return `${number.format(value)} B`;
      return value < 1024 ** 2 ? `${number.format(value / 1024)} KB` : `${number.format(value / 1024 ** 2)} MB`;
    },
    time: (value) => {
      const date = valid(value);
      return date ? time.format(date) : String(value);
    },
    timeIn: (value, zone) => {
      const date = valid(value);
      return date ? inZone(locale, zone).format(date) : String(value);
    },
    ago: (value) => {
      const date = valid(value);
      if (!date) return String(value);
      const seconds = (date.getTime() - Date.now()) / 1000;
      const [unit, length] = STEPS.find(([, length]) => Math.abs(seconds) >= length) ?? ["second", 1];
      return ago.format(unit === "day" ? days(date) : Math.round(seconds / length), unit);
    },
    past: (value) => new Date(value).getTime() <= Date.now(),
    duration: (milliseconds) => {
      if (milliseconds > 0 && milliseconds < 0.1) return "< 0.1 ms";
      if (milliseconds < 1000) return `${number.format(milliseconds < 10 ? milliseconds : Math.round(milliseconds))} ms`;
      if (milliseconds < 60_000) return `${number.format(milliseconds / 1000)} s`;
      return `${number.format(Math.floor(milliseconds / 60_000))} min ${number.format(Math.round((milliseconds % 60_000) / 1000))} s`;
    },
    share: (value) => share.format(value),
    day: (value) => {
      const date = valid(value);
      return date ? day.format(date) : value;
    },
    dayAgo: (value) => {
      const date = valid(value);
      if (!date) return value;
      const passed = Math.min(0, Math.round((date.getTime() - Date.parse(new Date().toISOString().slice(0, 10))) / 86_400_000));
      return passed > -31 ? ago.format(passed, "day") : ago.format(Math.round(passed / 30.4), "month");
    },
    short: (value) => short.format(value),
    money: (value, currency) => {
      const digits = value > 0 && value < 0.1 ? 3 : 2;
      try {
        return new Intl.NumberFormat(locale, { style: "currency", currency, currencyDisplay: "narrowSymbol", minimumFractionDigits: digits, maximumFractionDigits: digits }).format(value);
      } catch {
        return `${value.toFixed(digits)} ${currency}`; // a setting of the operator, which may be no currency
      }
    },
  };
}

/** How many days from today a moment is, by the calendar: early on Monday is not tomorrow on Saturday evening. */
function days(date: Date): number {
  const midnight = (moment: Date) => new Date(moment.getFullYear(), moment.getMonth(), moment.getDate()).getTime();
  return Math.round((midnight(date) - midnight(new Date())) / 86_400_000);
}

function inZone(locale: string, timeZone: string): Intl.DateTimeFormat {
  const shown = { weekday: "short", day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" } as const;
  try {
    return new Intl.DateTimeFormat(locale, { ...shown, timeZone });
  } catch {
    return new Intl.DateTimeFormat(locale, shown);
  }
}

const FORMATS: Record<Language, Format> = { en: made("en"), zh: made("zh") };

export function useFormat(): Format {
  return FORMATS[useLanguage()];
}

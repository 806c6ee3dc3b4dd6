import { describe, expect, it } from "vitest";

import { compose, decompose, inWords } from "@/pages/schedules/cron";
import { schedules } from "@/pages/schedules/words";

const chosen = { rhythm: "day", time: "08:05", weekday: 1, day: 31, own: " 0 0 * * * " } as const;

describe("a cron expression", () => {
  it.each([
    ["day", "5 8 * * *"],
    ["workdays", "5 8 * * mon-fri"],
    ["week", "5 8 * * mon"],
    ["month", "5 8 31 * *"],
    ["hour", "5 * * * *"],
    ["own", "0 0 * * *"],
  ] as const)("is put together for %s", (rhythm, cron) => {
    expect(compose({ ...chosen, rhythm })).toBe(cron);
  });

  it.each(["5 8 * * *", "5 8 * * mon-fri", "0 9 * * sun", "5 8 31 * *", "5 * * * *", "0 9 29 feb *", "*/15 * * * *"])("%s is taken apart and put together again", (cron) => {
    expect(compose(decompose(cron))).toBe(cron);
  });

  it("is none while the time is not written", () => {
    expect(compose({ ...chosen, time: "" })).toBeUndefined();
    expect(compose({ ...chosen, rhythm: "own", own: "  " })).toBeUndefined();
  });

  it.each([
    ["* * * * *", "Every minute", "每分钟"],
    ["*/15 * * * *", "Every 15 minutes", "每 15 分钟"],
    ["5 * * * *", "Every hour at minute 05", "每小时的第 05 分"],
    ["0 */6 * * *", "Every 6 hours at minute 00", "每 6 小时的第 00 分"],
    ["0 3 * * *", "Every day at 03:00", "每天 03:00"],
    ["30 8,12,18 * * *", "Every day at 08:30, 12:30 and 18:30", "每天 08:30、12:30和18:30"],
    ["0 8 * * mon-fri", "Monday to Friday at 08:00", "周一至周五 08:00"],
    ["0 8 * * 1-5", "Monday to Friday at 08:00", "周一至周五 08:00"],
    ["0 8 * * SUN", "Every Sunday at 08:00", "每星期日 08:00"],
    ["0 8 * * 7,1", "Every Monday and Sunday at 08:00", "每星期一和星期日 08:00"],
    ["0 8 * * 0-6", "Every day at 08:00", "每天 08:00"],
    ["0 0 1 * *", "On day 1 of each month at 00:00", "每月 1 日 00:00"],
    ["0 9 29 feb *", "Every year on 29 February at 09:00", "每年2月29日 09:00"],
  ])("%s is described in words", (cron, english, chinese) => {
    expect(inWords(cron, schedules.en.when, "en-GB")).toBe(english);
    expect(inWords(cron, schedules.zh.when, "zh-CN")).toBe(chinese);
  });

  it.each(["", "* * *", "*/7 * * * *", "0 */5 * * *", "0 8 13 * fri", "0 8 1,15 * *", "0 8 l * *", "0,30 8 * * *", "0 8 * 1-3 *", "0 8 * * fri-mon"])(
    "%s is shown as it is",
    (cron) => expect(inWords(cron, schedules.en.when, "en-GB")).toBeUndefined(),
  );
});

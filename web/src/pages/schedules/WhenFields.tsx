/** When a new schedule comes due: at one moment or again and again, in a time zone; and what that comes to. */
import { Group, NativeSelect, NumberInput, SegmentedControl, Select, Stack, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useMemo } from "react";

import type { Schedule, Times } from "@/api/schedules";
import { LOCALES, useLanguage, useText } from "@/i18n";

import { Coming } from "./Coming";
import { type Chosen, compose, decompose, RHYTHMS, weekdayName } from "./cron";
import { schedules } from "./words";

export interface When extends Chosen {
  how: "again" | "once";
  /** As 2027-01-31T08:00, by clocks in the time zone. */
  moment: string;
  zone: string;
}

const WEEK = [1, 2, 3, 4, 5, 6, 0];

export const usual = (): When => ({
  how: "again",
  rhythm: "day",
  time: "08:00",
  weekday: 1,
  day: 1,
  own: "",
  moment: "",
  zone: new Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC",
});

/** When a schedule comes due, as it is chosen. */
export function whenOf({ cron, next_at, time_zone: zone }: Pick<Schedule, "cron" | "next_at" | "time_zone">): When {
  if (cron !== null) return { ...usual(), ...decompose(cron), zone };
  return { ...usual(), how: "once", moment: next_at === null ? "" : localTime(next_at, zone), zone };
}

/** A moment as clocks in a time zone show it: 2027-01-31T08:00. */
function localTime(moment: string, timeZone: string): string {
  const shown = new Intl.DateTimeFormat("sv-SE", { timeZone, year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit" });
  return shown.format(new Date(moment)).replace(" ", "T");
}

/** What the server is sent; nothing while it is not valid. */
export function timesOf(when: When): Times | undefined {
  const cron = when.how === "again" ? compose(when) : undefined;
  const at = when.how === "once" ? when.moment : "";
  return cron || at ? { cron: cron ?? null, at: at || null, time_zone: when.zone } : undefined;
}

interface Props {
  when: When;
  change: (part: Partial<When>) => void;
}

export function WhenFields({ when, change }: Props) {
  const t = useText(schedules);
  const [settled] = useDebouncedValue(when, 250);
  const times = timesOf(when) && timesOf(settled);
  return (
    <Stack gap="md">
      <SegmentedControl
        aria-label={t.how}
        value={when.how}
        onChange={(how) => change({ how })}
        data={[
          { value: "again", label: t.again },
          { value: "once", label: t.once },
        ]}
      />
      <Group gap="md" align="flex-start">
        {when.how === "again" ? (
          <Again when={when} change={change} />
        ) : (
          <TextInput
            type="datetime-local"
            label={t.moment}
            value={when.moment}
            onChange={({ currentTarget }) => change({ moment: currentTarget.value })}
            required
            flex="1 1 200px"
          />
        )}
        <Zone when={when} change={change} />
      </Group>
      {times && <Coming title={t.coming} times={times} />}
    </Stack>
  );
}

function Again({ when, change }: Props) {
  const t = useText(schedules);
  const locale = LOCALES[useLanguage()];
  const { rhythm } = when;
  return (
    <>
      <NativeSelect
        label={t.rhythm}
        data={RHYTHMS.map((value) => ({ value, label: t.rhythms[value] }))}
        value={rhythm}
        onChange={({ currentTarget: { value } }) => change({ rhythm: RHYTHMS.find((one) => one === value) ?? "day", own: value === "own" ? (compose(when) ?? "") : when.own })}
        flex="1 1 180px"
      />
      {rhythm === "week" && (
        <NativeSelect
          label={t.weekday}
          data={WEEK.map((day) => ({ value: String(day), label: weekdayName(day, locale) }))}
          value={String(when.weekday)}
          onChange={({ currentTarget }) => change({ weekday: Number(currentTarget.value) })}
          flex="1 1 120px"
        />
      )}
      {rhythm === "month" && (
        <NumberInput label={t.dayOfMonth} min={1} max={31} clampBehavior="strict" allowDecimal={false} value={when.day} onChange={(day) => change({ day: Number(day) || 1 })} flex="1 1 90px" />
      )}
      {rhythm === "hour" && (
        <NumberInput
          label={t.minute}
          min={0}
          max={59}
          clampBehavior="strict"
          allowDecimal={false}
          value={Number(when.time.slice(3))}
          onChange={(minute) => change({ time: `${when.time.slice(0, 2)}:${String(Number(minute)).padStart(2, "0")}` })}
          flex="1 1 90px"
        />
      )}
      {rhythm === "own" ? (
        <TextInput
          label={t.cron}
          description={t.cronHint}
          inputWrapperOrder={["label", "input", "description"]}
          value={when.own}
          maxLength={200}
          onChange={({ currentTarget }) => change({ own: currentTarget.value })}
          required
          spellCheck={false}
          autoComplete="off"
          ff="monospace"
          flex="1 1 220px"
        />
      ) : (
        rhythm !== "hour" && <TextInput type="time" label={t.time} value={when.time} onChange={({ currentTarget }) => change({ time: currentTarget.value })} required flex="1 1 100px" />
      )}
    </>
  );
}

function Zone({ when, change }: Props) {
  const t = useText(schedules);
  const zones = useMemo(() => [...new Set([usual().zone, "UTC", ...Intl.supportedValuesOf("timeZone")])], []);
  return (
    <Select
      label={t.zone}
      data={zones}
      value={when.zone}
      onChange={(zone) => zone && change({ zone })}
      searchable
      allowDeselect={false}
      limit={60}
      nothingFoundMessage={t.noZone}
      flex="1 1 200px"
    />
  );
}

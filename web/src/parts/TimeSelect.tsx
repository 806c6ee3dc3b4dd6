/** From when on a list goes: some days back, or the days that an address names. */
import { Select } from "@mantine/core";

import { daysAgo } from "@/api/insights";
import { RANGES } from "@/app/search";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { runs } from "@/pages/runs/words";

interface Span {
  since: string | undefined;
  until: string | undefined;
}

export function TimeSelect({ since, until, change }: Span & { change: (span: Span) => void }) {
  const t = useText(runs);
  const format = useFormat();
  const back = [1, ...RANGES].find((days) => until === undefined && since === daysAgo(days - 1));
  const own = back === undefined && (since !== undefined || until !== undefined);
  const named = since === until ? format.day(since ?? "") : t.between(since ? format.day(since) : "", until ? format.day(until) : "");
  return (
    <Select
      aria-label={t.time}
      placeholder={`${t.time}: ${t.any}`}
      data={[...[1, ...RANGES].map((days) => ({ value: String(days), label: t.lastDays(days) })), ...(own ? [{ value: "own", label: named }] : [])]}
      value={own ? "own" : back === undefined ? null : String(back)}
      onChange={(value) => value !== "own" && change({ since: value ? daysAgo(Number(value) - 1) : undefined, until: undefined })}
      clearable
    />
  );
}

/** Narrow the list by where skills are from, whether they are offered, and their tags. */
import { Button, Group, NativeSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { facetsQuery } from "@/api/catalog";
import type { CatalogSearch } from "@/app/search";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";

import classes from "./Filters.module.css";
import { visible } from "@/parts/foreign";

import { catalog } from "./words";

interface Props {
  chosen: CatalogSearch;
  choose: (change: Partial<CatalogSearch>) => void;
}

export function Filters({ chosen, choose }: Props) {
  const t = useText(catalog);
  const format = useFormat();
  const counts = useQuery(facetsQuery()).data;
  const options = (found: Record<string, number> | undefined, kept: string | undefined, labels: Record<string, string>) => {
    const values = new Map(Object.entries(found ?? {}));
    if (kept && !values.has(kept)) values.set(kept, 0);
    return [...values].map(([value, count]) => ({ value, label: `${visible(labels[value] ?? value)} (${format.number(count)})` }));
  };
  const one = (name: "source" | "state" | "tag", data: { value: string; label: string }[]) => (
    <NativeSelect
      aria-label={t[name]}
      data={[{ value: "", label: t.any[name] }, ...data]}
      value={chosen[name] ?? ""}
      onChange={(event) => choose({ [name]: event.currentTarget.value || undefined })}
      size="sm"
      className={classes.filter}
      data-chosen={Boolean(chosen[name])}
    />
  );
  return (
    <Group gap="xs">
      {one("source", options(counts?.source, chosen.source, t.sources))}
      {one("state", options(counts?.status, chosen.state, t.states))}
      {one("tag", options(counts?.tag, chosen.tag, {}))}
      {(chosen.source ?? chosen.state ?? chosen.tag) && (
        <Button variant="subtle" color="gray" size="sm" onClick={() => choose({ source: undefined, state: undefined, tag: undefined })}>
          {t.reset}
        </Button>
      )}
    </Group>
  );
}

/** Narrow the list by where skills are from, whether they are offered, their tags and what one keeps oneself; choose its order. */
import { ActionIcon, Button, Group, NativeSelect, Tooltip } from "@mantine/core";
import { IconArrowsSort, IconFilterOff, IconStar, IconStarFilled } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";

import { chooseSet, facetsQuery, setsQuery } from "@/api/catalog";
import { collectionsQuery } from "@/api/kept";
import { useMay } from "@/api/scopes";
import { CATALOG_ORDERS, type CatalogSearch, CONFIDENCES } from "@/app/search";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";

import classes from "./Filters.module.css";
import { visible } from "@/parts/foreign";
import { notify, notifyProblem } from "@/parts/notify";
import { skill } from "@/pages/skill/words";

import { Saved } from "./Saved";
import { catalog } from "./words";

const FILTERS = ["source", "state", "use", "tag", "starred", "collection", "least"] as const;
const NONE: Partial<CatalogSearch> = { source: undefined, state: undefined, use: undefined, tag: undefined, starred: undefined, collection: undefined, least: undefined };

interface Props {
  chosen: CatalogSearch;
  choose: (change: Partial<CatalogSearch>) => void;
}

export function Filters({ chosen, choose }: Props) {
  const t = useText(catalog);
  const s = useText(skill);
  const format = useFormat();
  const counts = useQuery(facetsQuery()).data;
  const options = (found: Record<string, number> | undefined, kept: string | undefined, labels: Record<string, string>) => {
    const values = new Map(Object.entries(found ?? {}));
    if (kept && !values.has(kept)) values.set(kept, 0);
    return [...values].map(([value, count]) => ({ value, label: `${visible(labels[value] ?? value)} (${format.number(count)})` }));
  };
  const collections = useQuery(collectionsQuery()).data ?? [];
  const one = (name: "source" | "state" | "use" | "tag", data: { value: string; label: string }[]) => (
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
      {one("use", options(counts?.state, chosen.use, s.skillStates))}
      {one("tag", options(counts?.tag, chosen.tag, {}))}
      {(collections.length > 0 || chosen.collection !== undefined) && (
        <NativeSelect
          aria-label={t.collection}
          data={[
            { value: "", label: t.anyCollection },
            ...collections.map(({ name, skills }) => ({ value: name, label: `${visible(name)} (${format.number(skills.length)})` })),
            ...(chosen.collection && !collections.some(({ name }) => name === chosen.collection) ? [{ value: chosen.collection, label: visible(chosen.collection) }] : []),
          ]}
          value={chosen.collection ?? ""}
          onChange={({ currentTarget }) => choose({ collection: currentTarget.value || undefined })}
          size="sm"
          className={classes.filter}
          data-chosen={Boolean(chosen.collection)}
        />
      )}
      {chosen.q !== undefined && (
        <NativeSelect
          aria-label={t.least}
          data={[{ value: "", label: t.leastAny }, ...CONFIDENCES.map((one) => ({ value: String(one), label: t.leastOf(format.share(one)) }))]}
          value={chosen.least ?? ""}
          onChange={({ currentTarget: { value } }) => choose({ least: CONFIDENCES.find((one) => String(one) === value) })}
          size="sm"
          className={classes.filter}
          data-chosen={chosen.least !== undefined}
        />
      )}
      <ProjectSet />
      {FILTERS.some((name) => chosen[name] !== undefined) && (
        <Tooltip label={t.reset}>
          <ActionIcon variant="subtle" color="gray" size={36} aria-label={t.reset} onClick={() => choose(NONE)}>
            <IconFilterOff size={18} stroke={1.6} />
          </ActionIcon>
        </Tooltip>
      )}
      <Group gap="xs" ml="auto" className={classes.order ?? ""}>
        <Button
          variant={chosen.starred ? "light" : "default"}
          size="sm"
          aria-pressed={chosen.starred ?? false}
          leftSection={chosen.starred ? <IconStarFilled size={15} /> : <IconStar size={15} />}
          onClick={() => choose({ starred: chosen.starred ? undefined : true })}
        >
          {t.starred}
        </Button>
        <Saved chosen={chosen} />
        <NativeSelect
          aria-label={t.sort}
          leftSection={<IconArrowsSort size={15} />}
          data={[...(chosen.q ? [{ value: "", label: t.sorted.relevance }] : []), ...CATALOG_ORDERS.map((order) => ({ value: order, label: t.sorted[order] }))]}
          value={chosen.sort ?? (chosen.q ? "" : "name")}
          onChange={({ currentTarget: { value } }) => choose({ sort: CATALOG_ORDERS.find((order) => order === value && (chosen.q !== undefined || order !== "name")) })}
          size="sm"
          className={classes.sort}
        />
      </Group>
    </Group>
  );
}

/** Which set of skills the project uses, where its configuration names some. */
function ProjectSet() {
  const t = useText(catalog);
  const cache = useQueryClient();
  const writes = useMay("skills:write");
  const found = useQuery(setsQuery()).data;
  const choosing = useMutation({
    mutationFn: chooseSet,
    onSuccess: ({ chosen }) => notify({ message: chosen === null ? t.setNone : t.setUsed(visible(chosen)) }),
    onError: notifyProblem,
    onSettled: () => Promise.all([cache.invalidateQueries({ queryKey: ["catalog"] }), cache.invalidateQueries({ queryKey: ["skill"] })]),
  });
  const names = Object.entries(found?.sets ?? {});
  if (names.length === 0) return null;
  return (
    <NativeSelect
      aria-label={t.set}
      title={t.setWhy}
      data={[{ value: "", label: t.everySet }, ...names.map(([name, skills]) => ({ value: name, label: t.setOf(visible(name), skills.length) }))]}
      value={found?.chosen ?? ""}
      disabled={!writes || choosing.isPending}
      onChange={({ currentTarget }) => choosing.mutate(currentTarget.value || null)}
      size="sm"
      className={classes.filter}
      data-chosen={Boolean(found?.chosen)}
    />
  );
}

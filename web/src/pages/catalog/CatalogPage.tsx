/** The skills: all of them, or those that fit what somebody wants. */
import { ActionIcon, Button, CloseButton, Group, Stack, Switch, Text, TextInput, Title, Tooltip } from "@mantine/core";
import { useDebouncedCallback, useMediaQuery } from "@mantine/hooks";
import { IconBooks, IconFolder, IconMoodEmpty, IconPackageImport, IconRefresh, IconSearch, IconStar } from "@tabler/icons-react";
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";

import { catalogQuery, enabledQuery, enableSkills, facetsQuery, refreshCatalog, searchQuery } from "@/api/catalog";
import { useMay } from "@/api/scopes";
import { type CatalogSearch, narrowing } from "@/app/search";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { EmptyState } from "@/parts/EmptyState";
import { Loaded } from "@/parts/Loaded";
import { notify, notifyProblem } from "@/parts/notify";
import { Page } from "@/parts/Page";

import { Filters } from "./Filters";
import { ListSkeleton, SkillList } from "./SkillList";
import { catalog } from "./words";

const route = getRouteApi("/skills");

export function CatalogPage() {
  const t = useText(catalog);
  const chosen = route.useSearch();
  const navigate = route.useNavigate();
  const choose = (change: Partial<CatalogSearch>) => void navigate({ search: (before) => ({ ...before, ...change }), replace: true });
  return (
    <Page
      title={t.title}
      lead={t.lead}
      actions={
        useMay("skills:write") && (
          <>
            <AllSwitch />
            <RefreshButton />
            <Button component={Link} to="/install" leftSection={<IconPackageImport size={16} />}>
              {t.install}
            </Button>
          </>
        )
      }
    >
      <Stack gap="sm">
        <SearchField value={chosen.q ?? ""} ask={(q) => choose({ q: q || undefined })} />
        <Filters chosen={chosen} choose={choose} />
        {chosen.q ? <Fitting chosen={chosen} q={chosen.q} /> : <Everything chosen={chosen} />}
      </Stack>
    </Page>
  );
}

function SearchField({ value, ask }: { value: string; ask: (q: string) => void }) {
  const t = useText(catalog);
  const [typed, setTyped] = useState(value);
  const [before, setBefore] = useState(value);
  if (value !== before) {
    setBefore(value); // the address has changed: by what was typed, or by a saved search
    if (value !== typed.trim()) setTyped(value);
  }
  const later = useDebouncedCallback(ask, 150);
  const set = (text: string) => {
    setTyped(text);
    later(text.trim());
  };
  return (
    <TextInput
      type="search"
      size="md"
      aria-label={t.search}
      placeholder={useMediaQuery("(max-width: 36em)", false, { getInitialValueInEffect: false }) ? t.searchShort : t.search}
      leftSection={<IconSearch size={18} />}
      rightSection={typed ? <CloseButton aria-label={t.clear} onClick={() => set("")} /> : undefined}
      value={typed}
      onChange={(event) => set(event.currentTarget.value)}
      maxLength={2000}
    />
  );
}

/** The switch over all skills. */
function AllSwitch() {
  const t = useText(catalog);
  const cache = useQueryClient();
  const enabled = useQuery(enabledQuery()).data;
  const switching = useMutation({
    mutationFn: enableSkills,
    onSuccess: async (on) => {
      await Promise.all([cache.invalidateQueries({ queryKey: ["skill"] }), cache.invalidateQueries({ queryKey: ["catalog"] })]);
      notify({ message: on ? t.offeredAll : t.offeredNone });
    },
    onError: notifyProblem,
  });
  if (enabled === undefined) return null;
  return (
    <Tooltip label={t.offerWhy} multiline maw={280}>
      <Switch
        label={t.offer}
        checked={enabled}
        disabled={switching.isPending}
        onChange={(event) => switching.mutate(event.currentTarget.checked)}
      />
    </Tooltip>
  );
}

function RefreshButton() {
  const t = useText(catalog);
  const cache = useQueryClient();
  const looking = useMutation({
    mutationFn: refreshCatalog,
    onSuccess: async ({ added, changed, removed }) => {
      await cache.invalidateQueries({ queryKey: ["catalog"] });
      notify({ message: t.refreshed(added.length, changed.length, removed.length) });
    },
    onError: notifyProblem,
  });
  return (
    <Tooltip label={t.refresh}>
      <ActionIcon size={36} variant="default" aria-label={t.refresh} loading={looking.isPending} onClick={() => looking.mutate()}>
        <IconRefresh size={18} stroke={1.6} />
      </ActionIcon>
    </Tooltip>
  );
}

function Everything({ chosen }: { chosen: CatalogSearch }) {
  const t = useText(catalog);
  const format = useFormat();
  const list = useInfiniteQuery(catalogQuery(narrowing(chosen)));
  const counts = useQuery(facetsQuery()).data;
  const all = Object.values(counts?.source ?? {}).reduce((sum, count) => sum + count, 0);
  const narrowed = chosen.source ?? chosen.state ?? chosen.use ?? chosen.tag ?? chosen.starred ?? chosen.collection;
  return (
    <Loaded query={list} skeleton={<Counted text=" " skeleton />}>
      {({ pages }) => {
        const skills = pages.flatMap(({ data }) => data).map((skill) => ({ skill }));
        const total = pages.at(-1)?.meta.total ?? 0;
        const unscanned = pages.at(-1)?.meta.unscanned ?? 0;
        if (total === 0) return narrowed ? <NoMatch chosen={chosen} /> : <NoSkills />;
        return (
          <>
            <Counted text={[t.count(format.number(total), format.number(Math.max(all, total))), unscanned && t.scanning(format.number(unscanned))].filter(Boolean).join(" · ")} />
            <SkillList
              label={t.list}
              skills={skills}
              total={total}
              more={() => {
                if (list.hasNextPage && !list.isFetching) void list.fetchNextPage();
              }}
            />
          </>
        );
      }}
    </Loaded>
  );
}

function Fitting({ chosen, q }: { chosen: CatalogSearch; q: string }) {
  const t = useText(catalog);
  const format = useFormat();
  const found = useQuery(searchQuery(q, 100, narrowing(chosen), chosen.least));
  // What is named so and not offered: somebody who looks for it wants to know why.
  const named = useInfiniteQuery({ ...catalogQuery({ ...narrowing(chosen), text: q }), select: ({ pages }) => pages[0]?.data ?? [] });
  const unseen = (named.data ?? []).filter(({ status }) => status !== "ok").slice(0, 20);
  return (
    <Loaded query={found} skeleton={<Counted text=" " skeleton />}>
      {(fits) => {
        const kept = fits.filter(
          ({ skill }) =>
            (!chosen.source || skill.source === chosen.source) &&
            (!chosen.state || skill.status === chosen.state) &&
            (!chosen.tag || skill.tags.includes(chosen.tag)),
        );
        const sure = kept.filter((fit) => fit.sure).length;
        const near = kept.length - sure;
        return (
          <>
            {kept.length > 0 ? (
              <>
                <Counted text={[sure && t.fits(format.number(sure)), near && t.nearest(format.number(near))].filter(Boolean).join(" · ")} />
                <SkillList key="fits" label={t.list} skills={kept.map((fit) => ({ skill: fit.skill, fit }))} total={kept.length} />
              </>
            ) : (
              <NoMatch chosen={chosen} />
            )}
            {unseen.length > 0 && (
              <>
                <Title order={2} size="h3" mt="lg">
                  {t.alsoNamed}
                </Title>
                <SkillList key="unseen" label={t.alsoNamed} skills={unseen.map((skill) => ({ skill }))} total={unseen.length} />
              </>
            )}
          </>
        );
      }}
    </Loaded>
  );
}

function Counted({ text, skeleton = false }: { text: string; skeleton?: boolean }) {
  return (
    <>
      <Text size="sm" c="dimmed" aria-live="polite" mih={22}>
        {text}
      </Text>
      {skeleton && <ListSkeleton />}
    </>
  );
}

function NoSkills() {
  const t = useText(catalog);
  return (
    <EmptyState icon={IconBooks} title={t.empty} hint={t.emptyHint}>
      {useMay("skills:write") && (
        <Group>
          <Button component={Link} to="/install" variant="light">
            {t.install}
          </Button>
          <RefreshButton />
        </Group>
      )}
    </EmptyState>
  );
}

function NoMatch({ chosen: { q, starred, collection, ...filters } }: { chosen: CatalogSearch }) {
  const t = useText(catalog);
  const alone = !q && !filters.source && !filters.state && !filters.use && !filters.tag;
  if (alone && starred && !collection) return <EmptyState icon={IconStar} title={t.noStars} hint={t.noStarsHint} />;
  if (alone && collection && !starred) return <EmptyState icon={IconFolder} title={t.emptyCollection} hint={t.emptyCollectionHint} />;
  return <EmptyState icon={IconMoodEmpty} title={t.noMatch} hint={t.noMatchHint} />;
}

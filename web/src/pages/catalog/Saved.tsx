/** What a person saved of the catalog: searches under a name and collections of skills; what is searched now can be added. */
import { ActionIcon, Button, Group, Popover, Stack, Text, TextInput } from "@mantine/core";
import { IconBookmark, IconDeviceFloppy, IconFolder, IconSearch, IconTrash, type Icon } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, type SyntheticEvent, useState } from "react";

import { collectionsQuery, deleteCollection, deleteSearch, saveSearch, searchesQuery } from "@/api/kept";
import { type CatalogSearch, fromWords, searchWords } from "@/app/search";
import { useText } from "@/i18n";
import { visible } from "@/parts/foreign";
import { AnchorLink } from "@/parts/links";
import { notify, notifyProblem } from "@/parts/notify";

import classes from "./Saved.module.css";
import { catalog } from "./words";

export function Saved({ chosen }: { chosen: CatalogSearch }) {
  const t = useText(catalog);
  const [opened, setOpened] = useState(false);
  return (
    <Popover opened={opened} onChange={setOpened} position="bottom-end" width={320} shadow="md" trapFocus withinPortal>
      <Popover.Target>
        <Button variant="default" size="sm" flex="none" leftSection={<IconBookmark size={15} />} aria-expanded={opened} onClick={() => setOpened(!opened)}>
          {t.saved}
        </Button>
      </Popover.Target>
      <Popover.Dropdown p="sm" aria-label={t.savedTitle}>
        {opened && <Kept chosen={chosen} close={() => setOpened(false)} />}
      </Popover.Dropdown>
    </Popover>
  );
}

function Kept({ chosen, close }: { chosen: CatalogSearch; close: () => void }) {
  const t = useText(catalog);
  const searches = useQuery(searchesQuery()).data ?? [];
  const collections = useQuery(collectionsQuery()).data ?? [];
  return (
    <Stack gap="sm">
      {searches.length === 0 && collections.length === 0 && (
        <Text size="sm" c="dimmed">
          {t.savedNone}
        </Text>
      )}
      {searches.length > 0 && (
        <Part title={t.searches}>
          {searches.map(({ name, search }) => (
            <Row key={name} icon={IconSearch} name={name} search={fromWords(search)} close={close} kind="searches" remove={deleteSearch} removing={t.forgetSearch(visible(name))} />
          ))}
        </Part>
      )}
      {collections.length > 0 && (
        <Part title={t.collections}>
          {collections.map(({ name, skills }) => (
            <Row
              key={name}
              icon={IconFolder}
              name={name}
              says={t.skillsIn(skills.length)}
              search={{ collection: name }}
              close={close}
              kind="collections"
              remove={deleteCollection}
              removing={t.forgetCollection(visible(name))}
            />
          ))}
        </Part>
      )}
      <Save chosen={chosen} />
    </Stack>
  );
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <div>
      <Text size="xs" c="dimmed" fw={600} mb={2}>
        {title}
      </Text>
      <ul className={classes.list} aria-label={title}>
        {children}
      </ul>
    </div>
  );
}

interface RowProps {
  icon: Icon;
  name: string;
  says?: string;
  search: CatalogSearch;
  kind: "searches" | "collections";
  remove: (name: string) => Promise<unknown>;
  removing: string;
  close: () => void;
}

function Row({ icon: Icon, name, says, search, kind, remove, removing, close }: RowProps) {
  const cache = useQueryClient();
  const deleting = useMutation({
    mutationFn: () => remove(name),
    onError: notifyProblem,
    onSettled: () => Promise.all([cache.invalidateQueries({ queryKey: ["kept", kind] }), cache.invalidateQueries({ queryKey: ["catalog", "list"] })]),
  });
  return (
    <li className={classes.row}>
      <Icon size={15} className={classes.icon} aria-hidden />
      <AnchorLink to="/skills" search={search} onClick={close} size="sm" truncate className={classes.name ?? ""}>
        <bdi>{visible(name)}</bdi>
      </AnchorLink>
      {says && (
        <Text size="xs" c="dimmed" className={classes.says ?? ""}>
          {says}
        </Text>
      )}
      <ActionIcon variant="subtle" color="gray" size={28} aria-label={removing} title={removing} loading={deleting.isPending} onClick={() => deleting.mutate()}>
        <IconTrash size={15} />
      </ActionIcon>
    </li>
  );
}

/** Save what is searched now. */
function Save({ chosen }: { chosen: CatalogSearch }) {
  const t = useText(catalog);
  const cache = useQueryClient();
  const [name, setName] = useState("");
  const search = searchWords(chosen);
  const saving = useMutation({
    mutationFn: saveSearch,
    onSuccess: async (saved) => {
      setName("");
      notify({ message: t.savedAs(visible(saved.name)) });
      await cache.invalidateQueries({ queryKey: ["kept", "searches"] });
    },
    onError: notifyProblem,
  });
  if (!search) {
    return (
      <Text size="xs" c="dimmed">
        {t.saveFirst}
      </Text>
    );
  }
  const send = (event: SyntheticEvent) => {
    event.preventDefault();
    if (name.trim()) saving.mutate({ name: name.trim(), search });
  };
  return (
    <form onSubmit={send}>
      <Group gap={6} wrap="nowrap">
        <TextInput size="sm" aria-label={t.saveName} placeholder={t.saveName} value={name} maxLength={80} onChange={({ currentTarget }) => setName(currentTarget.value)} flex={1} data-autofocus />
        <ActionIcon type="submit" size={36} aria-label={t.save} title={t.save} disabled={!name.trim()} loading={saving.isPending}>
          <IconDeviceFloppy size={17} />
        </ActionIcon>
      </Group>
    </form>
  );
}

/** What is remembered for whoever looks: found by words, written down, forgotten. */
import { ActionIcon, Badge, Button, Group, Paper, Skeleton, Stack, Text, TextInput, Tooltip } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { IconBrain, IconMoodEmpty, IconPlus, IconSearch, IconTrash } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { forget, memoriesQuery, type Memory } from "@/api/memories";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { EmptyState } from "@/parts/EmptyState";
import { callerName } from "@/parts/figures";
import { visible } from "@/parts/foreign";
import { AnchorLink } from "@/parts/links";
import { Loaded } from "@/parts/Loaded";
import { Page } from "@/parts/Page";
import { TakeBack } from "@/parts/TakeBack";

import { Remember } from "./Remember";
import { memory as table } from "./words";

export function MemoryPage() {
  const t = useText(table);
  const [typed, setTyped] = useState("");
  const [question] = useDebouncedValue(typed.trim(), 250);
  const query = useQuery(memoriesQuery(question));
  const [adding, setAdding] = useState(false);
  const [chosen, setChosen] = useState<Memory>();
  return (
    <Page
      title={t.title}
      lead={t.lead}
      actions={
        <Button leftSection={<IconPlus size={16} />} onClick={() => setAdding(true)}>
          {t.add}
        </Button>
      }
    >
      <Stack gap="sm">
        <TextInput
          aria-label={t.search}
          placeholder={t.search}
          leftSection={<IconSearch size={16} />}
          value={typed}
          maxLength={2000}
          onChange={({ currentTarget }) => setTyped(currentTarget.value)}
        />
        <Loaded query={query} skeleton={<Skeleton h={220} />}>
          {(found) =>
            found.length ? (
              <Stack gap="xs" role="list" aria-label={t.list}>
                {found.map((one) => (
                  <One key={one.id} memory={one} forget={() => setChosen(one)} />
                ))}
              </Stack>
            ) : question ? (
              <EmptyState icon={IconMoodEmpty} title={t.noMatch} hint={t.noMatchHint} />
            ) : (
              <EmptyState icon={IconBrain} title={t.empty} hint={t.emptyHint} />
            )
          }
        </Loaded>
      </Stack>
      <Remember opened={adding} close={() => setAdding(false)} />
      <TakeBack
        chosen={chosen}
        leave={() => setChosen(undefined)}
        act={({ id }) => forget(id)}
        stale={["memories"]}
        title={t.forgetAsk}
        action={t.forget}
      >
        {({ content }) => visible(content)}
      </TakeBack>
    </Page>
  );
}

function One({ memory, forget }: { memory: Memory & { score?: number }; forget: () => void }) {
  const t = useText(table);
  const format = useFormat();
  const types: Record<string, string> = t.types;
  return (
    <Paper p="sm" role="listitem">
      <Group gap="sm" wrap="nowrap" align="flex-start">
        <Stack gap={6} flex={1} miw={0}>
          <Text size="sm" style={{ overflowWrap: "anywhere", whiteSpace: "pre-wrap" }}>
            <bdi>{visible(memory.content)}</bdi>
          </Text>
          <Group gap={6}>
            <Badge color="gray">{types[memory.type] ?? visible(memory.type)}</Badge>
            <Badge color="gray" variant="outline" tt="none">
              <bdi>{t.owner[memory.owner_type](visible(callerName(memory.owner_id)))}</bdi>
            </Badge>
            {memory.tags.map((tag) => (
              <Badge key={tag} variant="default">
                <bdi>{visible(tag)}</bdi>
              </Badge>
            ))}
            <Text size="xs" c="dimmed">
              {t.importance} {format.number(memory.importance)} · {format.time(memory.timestamp)}
              {memory.score !== undefined && ` · ${t.fit(format.share(memory.score))}`}
            </Text>
            {memory.run_id && (
              <AnchorLink to="/runs/$id" params={{ id: memory.run_id }} size="xs">
                {t.run}
              </AnchorLink>
            )}
          </Group>
        </Stack>
        <Tooltip label={t.forget}>
          <ActionIcon aria-label={t.forget} onClick={forget}>
            <IconTrash size={17} />
          </ActionIcon>
        </Tooltip>
      </Group>
    </Paper>
  );
}

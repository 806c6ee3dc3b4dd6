/** The keys of this server: which there are, a new one, and one that shall hold no more. */
import { Badge, Button, Checkbox, Code, Group, Skeleton, Stack, Table, Text } from "@mantine/core";
import { IconKey, IconPlus } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { type Key, keysQuery, revokeKey } from "@/api/keys";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { DataTable } from "@/parts/DataTable";
import { EmptyState } from "@/parts/EmptyState";
import { visible } from "@/parts/foreign";
import { Loaded } from "@/parts/Loaded";
import { Page } from "@/parts/Page";
import { TakeBack } from "@/parts/TakeBack";

import { MakeKey } from "./MakeKey";
import { keys as table } from "./words";

const COLOURS: Record<Key["state"], string> = { usable: "pine", expired: "gray", revoked: "red" };

export function KeysPage() {
  const t = useText(table);
  const query = useQuery(keysQuery());
  const [making, setMaking] = useState(false);
  return (
    <Page
      title={t.title}
      lead={t.lead}
      actions={
        <Button leftSection={<IconPlus size={16} />} onClick={() => setMaking(true)}>
          {t.make}
        </Button>
      }
    >
      <Loaded query={query} skeleton={<Skeleton h={180} aria-hidden />}>
        {({ data }) => (data.length ? <KeyTable keys={data} /> : <EmptyState icon={IconKey} title={t.empty} hint={t.emptyHint} />)}
      </Loaded>
      <MakeKey opened={making} close={() => setMaking(false)} />
    </Page>
  );
}

function KeyTable({ keys }: { keys: readonly Key[] }) {
  const t = useText(table);
  const [all, setAll] = useState(false);
  const [chosen, setChosen] = useState<Key>();
  const shown = all ? keys : keys.filter(({ state }) => state === "usable");
  return (
    <Stack gap="sm">
      <DataTable minWidth={820} columns={[t.name, t.key, t.scopes, t.organisation, t.used, t.ends, t.state, ""]}>
        {shown.map((key) => (
          <KeyRow key={key.id} item={key} revoke={() => setChosen(key)} />
        ))}
      </DataTable>
      {keys.some(({ state }) => state !== "usable") && (
        <Checkbox label={t.showAll} checked={all} onChange={({ currentTarget }) => setAll(currentTarget.checked)} />
      )}
      <TakeBack
        chosen={chosen}
        leave={() => setChosen(undefined)}
        act={({ id }) => revokeKey(id)}
        stale={keysQuery().queryKey}
        title={t.revokeTitle}
        action={t.revoke}
      >
        {({ name }) => t.revokeWhy(visible(name))}
      </TakeBack>
    </Stack>
  );
}

function KeyRow({ item, revoke }: { item: Key; revoke: () => void }) {
  const t = useText(table);
  const format = useFormat();
  return (
    <Table.Tr>
      <Table.Td>
        <Text size="sm" fw={560} miw={140} maw={260} style={{ overflowWrap: "anywhere" }}>
          <bdi>{visible(item.name)}</bdi>
        </Text>
        <Text size="xs" c="dimmed">
          {t.created} {format.ago(item.created_at)}
        </Text>
      </Table.Td>
      <Table.Td>
        <Code style={{ whiteSpace: "nowrap" }}>{item.prefix}…</Code>
      </Table.Td>
      <Table.Td>
        <Group gap={4}>
          {item.scopes.map((scope) => (
            <Badge key={scope} miw="max-content" color={scope === "admin" ? "yellow" : "gray"}>
              {scope}
            </Badge>
          ))}
        </Group>
      </Table.Td>
      <Table.Td>
        <bdi>{visible(item.organisation)}</bdi>
      </Table.Td>
      <Table.Td>{item.last_used_at ? format.ago(item.last_used_at) : t.neverUsed}</Table.Td>
      <Table.Td>{item.expires_at ? format.time(item.expires_at) : "–"}</Table.Td>
      <Table.Td>
        <Badge color={COLOURS[item.state]} miw="max-content">{t.states[item.state]}</Badge>
      </Table.Td>
      <Table.Td ta="right">
        {item.state === "usable" && (
          <Button size="compact-sm" variant="subtle" color="red" onClick={revoke}>
            {t.revoke}
          </Button>
        )}
      </Table.Td>
    </Table.Tr>
  );
}

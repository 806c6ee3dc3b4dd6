/** What stands beside a run: what it wanted remembered, what it was held to, and whom it asked. */
import { Badge, Box, Group, Stack, Table, Text } from "@mantine/core";
import { IconCheck, IconX } from "@tabler/icons-react";

import type { RunDetail } from "@/api/runs";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { DataTable } from "@/parts/DataTable";
import { visible } from "@/parts/foreign";
import { Section } from "@/parts/Section";

import { runs } from "../runs/words";
import { limitValue } from "./limits";

export function MemoryWrites({ writes }: { writes: RunDetail["memory_writes"] }) {
  const t = useText(runs);
  const format = useFormat();
  return (
    <Section title={t.memory} empty={!writes.length && t.noMemory}>
      <Stack gap="sm">
        {writes.map((write, index) => (
          <Box key={index}>
            <Text size="sm" style={{ overflowWrap: "anywhere" }}>
              <bdi>{visible(write.content)}</bdi>
            </Text>
            <Group gap="xs" mt={4}>
              <Badge color={write.saved ? "pine" : write.saved === false ? "red" : "gray"}>
                {write.saved ? t.saved : write.saved === false ? t.notSaved : t.pending}
              </Badge>
              <Text size="xs" c="dimmed">
                <bdi>{`${visible(write.ownerType)} ${visible(write.ownerId)} · ${visible(write.type)}`}</bdi> · {t.importance}{" "}
                {format.number(write.importance)}
              </Text>
            </Group>
            {write.reason && (
              <Text size="xs" c="dimmed" mt={2}>
                <bdi>{visible(write.reason)}</bdi>
              </Text>
            )}
          </Box>
        ))}
      </Stack>
    </Section>
  );
}

export function Limits({ limits }: { limits: RunDetail["limits"] }) {
  const t = useText(runs);
  const format = useFormat();
  return (
    <Section title={t.limits} lead={t.limitsWhy} empty={!limits.length && t.noLimits}>
      <DataTable minWidth={380} dense columns={[t.limit, t.value, t.by]}>
        {limits.map((limit) => (
          <Table.Tr key={limit.name}>
            <Table.Td title={limit.name}>{t.limitNames[limit.name] ?? limit.name}</Table.Td>
            <Table.Td>
              <bdi>{visible(limitValue(limit.name, limit.value, format))}</bdi>
            </Table.Td>
            <Table.Td>
              <Group gap={6} wrap="nowrap" align="flex-start">
                {limit.enforced ? (
                  <IconCheck size={15} color="var(--mantine-primary-color-filled)" aria-label={t.enforced} role="img" />
                ) : (
                  <IconX size={15} color="var(--mantine-color-red-filled)" aria-hidden />
                )}
                <span>{limit.enforced ? limit.by : t.notEnforced}</span>
              </Group>
            </Table.Td>
          </Table.Tr>
        ))}
      </DataTable>
    </Section>
  );
}

export function Contacts({ contacts }: { contacts: RunDetail["contacts"] }) {
  const t = useText(runs);
  const format = useFormat();
  return (
    <Section title={t.contacts} empty={!contacts.length && t.noContacts}>
      <DataTable minWidth={380} dense columns={[t.host, t.verdict, { name: t.requests, right: true }, { name: t.traffic, right: true }]}>
        {contacts.map((contact, index) => (
          <Table.Tr key={index}>
            <Table.Td>
              <bdi>{`${visible(contact.host)}:${contact.port}`}</bdi>
            </Table.Td>
            <Table.Td>
              <Badge color={contact.verdict === "allowed" ? "pine" : "red"} title={contact.reason}>
                {contact.verdict}
              </Badge>
            </Table.Td>
            <Table.Td ta="right">{format.number(contact.requests)}</Table.Td>
            <Table.Td ta="right">
              {format.bytes(contact.sent_bytes)} / {format.bytes(contact.received_bytes)}
            </Table.Td>
          </Table.Tr>
        ))}
      </DataTable>
    </Section>
  );
}

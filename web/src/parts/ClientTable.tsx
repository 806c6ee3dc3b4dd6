/** Which clients load a skill, under which name, and why one does not. */
import { Badge, List, Table, Text } from "@mantine/core";
import { IconCheck, IconX } from "@tabler/icons-react";

import type { Loading } from "@/api/skills";
import { useText } from "@/i18n";
import { safety } from "@/pages/skill/safetyWords";

import { visible } from "./foreign";

export function ClientTable({ clients }: { clients: readonly Loading[] }) {
  const t = useText(safety);
  return (
    <Table.ScrollContainer minWidth={460} type="native" tabIndex={0}>
      <Table layout="auto">
        <Table.Tbody>
          {clients.map(({ client, loads, name, problems, notes }) => (
            <Table.Tr key={client}>
              <Table.Th scope="row" w={120} style={{ whiteSpace: "nowrap" }}>
                {t.clients[client] ?? client}
              </Table.Th>
              <Table.Td w={150}>
                <Badge color={loads ? "pine" : "red"} leftSection={loads ? <IconCheck size={13} /> : <IconX size={13} />}>
                  {loads ? t.loads : t.refuses}
                </Badge>
              </Table.Td>
              <Table.Td>
                <Text size="sm" style={{ overflowWrap: "anywhere" }}>
                  {t.shownAs} <bdi>{visible(name)}</bdi>
                </Text>
                {problems.length + notes.length > 0 && (
                  <List size="xs" listStyleType="disc" mt={2}>
                    {[...problems, ...notes].map((one) => (
                      <List.Item key={one} c={problems.includes(one) ? undefined : "dimmed"}>
                        {visible(one)}
                      </List.Item>
                    ))}
                  </List>
                )}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

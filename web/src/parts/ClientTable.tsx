/** Which clients load a skill, under which name, and why one does not. */
import { Badge, Box, List, Text } from "@mantine/core";
import { IconCheck, IconX } from "@tabler/icons-react";

import type { Loading } from "@/api/skills";
import { useText } from "@/i18n";
import { safety } from "@/pages/skill/safetyWords";

import classes from "./ClientTable.module.css";
import { visible } from "./foreign";

export function ClientTable({ clients }: { clients: readonly Loading[] }) {
  const t = useText(safety);
  return (
    <ul className={classes.clients}>
      {clients.map(({ client, loads, name, problems, notes }) => (
        <li key={client}>
          <Text size="sm" fw={600}>
            {t.clients[client] ?? client}
          </Text>
          <Box>
            <Badge color={loads ? "pine" : "red"} leftSection={loads ? <IconCheck size={13} /> : <IconX size={13} />}>
              {loads ? t.loads : t.refuses}
            </Badge>
          </Box>
          <Box miw={0}>
            <Text size="sm" style={{ overflowWrap: "anywhere" }}>
              {t.shownAs} <bdi>{visible(name)}</bdi>
            </Text>
            {problems.length + notes.length > 0 && (
              <List size="xs" listStyleType="disc" mt={2} style={{ overflowWrap: "anywhere" }}>
                {[...problems, ...notes].map((one) => (
                  <List.Item key={one} c={problems.includes(one) ? undefined : "dimmed"}>
                    {visible(one)}
                  </List.Item>
                ))}
              </List>
            )}
          </Box>
        </li>
      ))}
    </ul>
  );
}

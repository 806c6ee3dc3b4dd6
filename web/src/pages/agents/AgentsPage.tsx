/** The agents that were defined. */
import { Badge, Box, Group, Paper, SimpleGrid, Skeleton, Stack, Text } from "@mantine/core";
import { IconPlus, IconRobot } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import { type Agent, agentsQuery } from "@/api/agents";
import { useMay } from "@/api/scopes";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { AgentsOfMachine } from "@/parts/CodingAgents";
import { EmptyState } from "@/parts/EmptyState";
import { visible } from "@/parts/foreign";
import { ButtonLink } from "@/parts/links";
import { Loaded } from "@/parts/Loaded";
import { Page } from "@/parts/Page";

import classes from "./AgentsPage.module.css";
import { agents as table } from "./words";

export function AgentsPage() {
  const t = useText(table);
  const query = useQuery(agentsQuery());
  const make = useMay("skills:write") && (
    <ButtonLink to="/agents/$id" params={{ id: "new" }} leftSection={<IconPlus size={16} />}>
      {t.make}
    </ButtonLink>
  );
  const waiting = (
    <Cards>
      {[0, 1, 2].map((place) => (
        <Skeleton key={place} h={132} />
      ))}
    </Cards>
  );
  return (
    <Page title={t.title} lead={t.lead} actions={make}>
      <Loaded query={query} skeleton={waiting}>
        {({ data }) =>
          data.length ? (
            <Cards>
              {data.map((agent) => (
                <Card key={agent.id} agent={agent} />
              ))}
            </Cards>
          ) : (
            <EmptyState icon={IconRobot} title={t.empty} hint={t.emptyHint} />
          )
        }
      </Loaded>
      <Box mt="xl">
        <AgentsOfMachine />
      </Box>
    </Page>
  );
}

function Cards({ children }: { children: ReactNode }) {
  return (
    <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }} spacing="md">
      {children}
    </SimpleGrid>
  );
}

function Card({ agent }: { agent: Agent }) {
  const t = useText(table);
  const format = useFormat();
  return (
    <Link to="/agents/$id" params={{ id: agent.id }} className={classes.card}>
      <Paper p="md" h="100%">
        <Stack gap={6} h="100%">
          <Text fw={600} truncate>
            <bdi>{visible(agent.name)}</bdi>
          </Text>
          <Text size="sm" c="dimmed" lineClamp={2} style={{ overflowWrap: "anywhere" }}>
            <bdi>{visible(agent.description || agent.system_prompt)}</bdi>
          </Text>
          <Group gap={6} mt="auto" pt={6}>
            <Badge color="gray">{agent.skills.length ? t.someSkills(agent.skills.length) : t.allSkills}</Badge>
            <Badge variant="default" maw="100%">
              <bdi>{visible(agent.model ?? t.anyModel)}</bdi>
            </Badge>
            <Text size="xs" c="dimmed" ml="auto">
              {t.changed(format.ago(agent.updated_at))}
            </Text>
          </Group>
        </Stack>
      </Paper>
    </Link>
  );
}

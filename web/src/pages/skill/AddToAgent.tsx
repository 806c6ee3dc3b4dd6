/** Adds a skill to an agent that is chosen. */
import { Box, Button, Group, Skeleton, Stack, Text } from "@mantine/core";
import { IconCheck, IconPlus, IconRobot } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";

import { type Agent, agentBody, agentsQuery, keepAgent } from "@/api/agents";
import type { SkillDetail } from "@/api/skills";
import { useText } from "@/i18n";
import { Dialog } from "@/parts/Dialog";
import { EmptyState } from "@/parts/EmptyState";
import { visible } from "@/parts/foreign";
import { AnchorLink, ButtonLink } from "@/parts/links";
import { Loaded } from "@/parts/Loaded";
import { notify, notifyProblem } from "@/parts/notify";

import { skill as table } from "./words";

export default function AddToAgent({ skill, close }: { skill: SkillDetail; close: () => void }) {
  const t = useText(table);
  const query = useQuery(agentsQuery());
  return (
    <Dialog opened close={close} title={t.addTo(visible(skill.name))}>
      <Loaded query={query} skeleton={<Skeleton h={120} />}>
        {({ data }) =>
          data.length > 0 ? (
            <Stack gap="sm">
              {data.map((agent) => (
                <Row key={agent.id} agent={agent} skill={skill} />
              ))}
            </Stack>
          ) : (
            <EmptyState icon={IconRobot} title={t.noAgents} hint={t.noAgentsHint}>
              <ButtonLink to="/agents/$id" params={{ id: "new" }}>
                {t.newAgent}
              </ButtonLink>
            </EmptyState>
          )
        }
      </Loaded>
    </Dialog>
  );
}

function Row({ agent, skill }: { agent: Agent; skill: SkillDetail }) {
  const t = useText(table);
  const cache = useQueryClient();
  const has = agent.skills.length === 0 || agent.skills.some(({ skill_id }) => skill_id === skill.id); // without skills it has all
  const adding = useMutation({
    mutationFn: () => {
      const body = agentBody(agent);
      return keepAgent({ id: agent.id, body: { ...body, skills: [...body.skills, { skill: skill.id, version_lock: null, auto_update: true }] } });
    },
    onSuccess: () => notify({ message: t.addedTo(visible(skill.name), visible(agent.name)) }),
    onError: notifyProblem,
    onSettled: () => cache.invalidateQueries({ queryKey: ["agents"] }),
  });
  return (
    <Group justify="space-between" wrap="nowrap" gap="md">
      <Box miw={0}>
        <AnchorLink to="/agents/$id" params={{ id: agent.id }} size="sm" fw={600} truncate>
          <bdi>{visible(agent.name)}</bdi>
        </AnchorLink>
        <Text size="xs" c="dimmed" truncate>
          {agent.skills.length > 0 ? t.agentSkills(agent.skills.length) : t.allSkills}
        </Text>
      </Box>
      {has ? (
        <Button variant="light" size="xs" leftSection={<IconCheck size={15} />} disabled>
          {t.isIn}
        </Button>
      ) : (
        <Button variant="default" size="xs" leftSection={<IconPlus size={15} />} loading={adding.isPending} onClick={() => adding.mutate()} aria-label={t.addToNamed(visible(agent.name))}>
          {t.add}
        </Button>
      )}
    </Group>
  );
}

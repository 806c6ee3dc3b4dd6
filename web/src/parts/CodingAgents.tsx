/** Skills in the folders of the coding agents of this machine: put there and taken out. */
import { Badge, Box, Group, Pill, Switch, Text, Tooltip } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { codingAgentsQuery, linkSkill, type MachineAgent } from "@/api/agents";
import { useMay } from "@/api/scopes";
import { useText } from "@/i18n";

import classes from "./CodingAgents.module.css";
import { codingAgents } from "./codingAgentWords";
import { visible } from "./foreign";
import { notify, notifyProblem } from "./notify";
import { Section } from "./Section";

type Linked = MachineAgent["skills"][number];

/** Put one skill into the folder of an agent or take it out; what is refused is said with the reason. */
function useLinking(skill: string, name: string, agent: MachineAgent) {
  const t = useText(codingAgents);
  const cache = useQueryClient();
  return useMutation({
    mutationFn: (linked: boolean) => linkSkill({ skill, agent: agent.name, linked }),
    onSuccess: (reports, linked) => {
      const refused = reports.find(({ status }) => status === "refused");
      if (refused) notify({ title: t.refused, message: visible(refused.reason ?? ""), color: "red" });
      else notify({ message: linked ? t.done(name, agent.title) : t.gone(name, agent.title) });
    },
    onError: notifyProblem,
    onSettled: () => cache.invalidateQueries({ queryKey: ["coding-agents"] }),
  });
}

/** Which of the agents have one skill; nothing for who does not sit at the machine. */
export function SkillInAgents({ skill, name }: { skill: string; name: string }) {
  const t = useText(codingAgents);
  const agents = useQuery(codingAgentsQuery()).data ?? [];
  if (agents.length === 0) return null;
  return (
    <Section title={t.title} lead={t.why}>
      <ul className={classes.agents}>
        {agents.map((agent) => (
          <One key={agent.name} agent={agent} skill={skill} name={name} />
        ))}
      </ul>
    </Section>
  );
}

function One({ agent, skill, name }: { agent: MachineAgent; skill: string; name: string }) {
  const t = useText(codingAgents);
  const may = useMay("skills:write");
  const linking = useLinking(skill, name, agent);
  const found = agent.skills.filter((one) => one.skill === skill);
  const link = found[0];
  return (
    <li>
      <Box miw={0}>
        <Group gap={8}>
          <Text size="sm" fw={600}>
            {agent.title}
          </Text>
          {link && <State linked={link} />}
        </Group>
        <Text size="xs" c="dimmed" className={classes.path ?? ""}>
          <bdi>{visible(link?.path ?? agent.folder)}</bdi>
        </Text>
      </Box>
      <Switch
        aria-label={t.linkIn(name, agent.title)}
        checked={linking.isPending ? linking.variables : found.length > 0}
        disabled={!may || linking.isPending}
        onChange={({ currentTarget }) => linking.mutate(currentTarget.checked)}
      />
    </li>
  );
}

function State({ linked: { state } }: { linked: Linked }) {
  const t = useText(codingAgents);
  if (state === "ok" || state === "withdrawn") return null;
  return (
    <Tooltip label={t.stateWhy[state]} multiline maw={360}>
      <Badge color="yellow">{t.states[state]}</Badge>
    </Tooltip>
  );
}

/** All of them, each with its skills. */
export function AgentsOfMachine() {
  const t = useText(codingAgents);
  const { data } = useQuery(codingAgentsQuery());
  if (!data || data.length === 0) return null;
  return (
    <Section title={t.title} lead={t.listWhy}>
      <ul className={classes.agents}>
        {data.map((agent) => (
          <li key={agent.name}>
            <Box miw={0}>
              <Text size="sm" fw={600}>
                {agent.title}
              </Text>
              <Text size="xs" c="dimmed" className={classes.path ?? ""}>
                <bdi>{visible(agent.folder)}</bdi>
              </Text>
              <Group gap={6} mt={6}>
                {agent.skills.map((linked) => (
                  <Skill key={linked.path} linked={linked} agent={agent} />
                ))}
                {agent.skills.length === 0 && (
                  <Text size="xs" c="dimmed">
                    {t.empty}
                  </Text>
                )}
              </Group>
            </Box>
          </li>
        ))}
      </ul>
    </Section>
  );
}

function Skill({ linked, agent }: { linked: Linked; agent: MachineAgent }) {
  const t = useText(codingAgents);
  const may = useMay("skills:write", false);
  const name = visible(linked.name);
  const linking = useLinking(linked.skill ?? linked.name, name, agent);
  return (
    <Group gap={6} wrap="nowrap">
      <Pill
        withRemoveButton={may && linked.skill !== null}
        disabled={linking.isPending}
        removeButtonProps={{ "aria-label": t.takeOut(name, agent.title), "aria-hidden": false, tabIndex: 0 }}
        onRemove={() => linking.mutate(false)}
      >
        {linked.skill ? (
          <Link to="/skills/$id" params={{ id: linked.skill }} search={{ tab: "clients" }} className={classes.skill ?? ""}>
            <bdi>{name}</bdi>
          </Link>
        ) : (
          <bdi>{name}</bdi>
        )}
      </Pill>
      <State linked={linked} />
    </Group>
  );
}

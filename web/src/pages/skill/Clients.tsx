/** Which clients can load a skill, and the commands that bring it to them. */
import { Skeleton, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { clientsQuery, installedId, type SkillDetail } from "@/api/skills";
import { useText } from "@/i18n";
import { ClientTable } from "@/parts/ClientTable";
import { SkillInAgents } from "@/parts/CodingAgents";
import { CopyLine } from "@/parts/CopyLine";
import { visible } from "@/parts/foreign";
import { Loaded } from "@/parts/Loaded";
import { Section } from "@/parts/Section";

import { clients as table } from "./clientWords";
import { installCommand, quoted } from "./installCommand";
import { safety } from "./safetyWords";

export default function Clients({ skill }: { skill: SkillDetail }) {
  const t = useText(table);
  const s = useText(safety);
  const loading = useQuery(clientsQuery(skill.id));
  const known = installedId(skill.id);
  return (
    <Stack gap="md" maw={900}>
      {skill.status === "ok" && <SkillInAgents skill={skill.id} name={visible(skill.name)} />}
      <Section title={known ? t.commands : t.local} lead={known ? t.commandsWhy : t.localWhy}>
        <Stack gap="md">
          {(known ? elsewhere(t, known) : here(t, skill)).map(([label, command]) => (
            <div key={label}>
              <Text size="sm" mb={4}>
                {label}
              </Text>
              <CopyLine text={command} label={label} />
              {known && label === t.skillyard && window.location.protocol === "http:" && (
                <Text size="xs" c="dimmed" mt={4}>
                  {t.plainHttp}
                </Text>
              )}
            </div>
          ))}
        </Stack>
      </Section>
      <Section title={t.title} lead={s.clientsWhy}>
        <Loaded query={loading} skeleton={<Skeleton h={260} />}>
          {(found) => <ClientTable clients={found} />}
        </Loaded>
      </Section>
    </Stack>
  );
}

type Said = ReturnType<typeof useText<(typeof table)["en"]>>;

function elsewhere(t: Said, id: string): [string, string][] {
  const { origin } = window.location;
  return [
    [t.npx, `npx skills add ${origin}/@${id}`],
    [t.claude, `/plugin marketplace add ${origin}/.claude-plugin/marketplace.json\n/plugin install ${id}@skillyard`],
    [t.clawhub, `clawhub --registry ${origin} install ${id}`],
    [t.skillyard, `skillyard install ${origin} --skill ${id}`],
    [t.archive, `curl -OJ ${origin}/api/v1/skill-definitions/${id}/archive`],
    [t.mcp, `{"mcpServers": {"skills": {"command": "skillyard", "args": ["mcp"]}}}`],
  ];
}

function here(t: Said, skill: SkillDetail): [string, string][] {
  return [
    [t.installFirst, installCommand(skill)],
    [t.mcp, `{"mcpServers": {"skills": {"command": "skillyard", "args": ["mcp"]}}}`],
    skill.run.possible ? [t.run, `skillyard run ${quoted(skill.name)} --input '{}'`] : [t.read, `skillyard read ${quoted(skill.name)}`],
  ];
}

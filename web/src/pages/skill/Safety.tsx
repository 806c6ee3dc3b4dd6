/** What a skill may do, who decides about it, and what a scanner says. */
import { Badge, Box, Code, Group, Skeleton, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";

import { type Needs, type SkillDetail, scanQuery } from "@/api/skills";
import { dependenciesQuery, type Need } from "@/api/versions";
import { useText } from "@/i18n";
import { HarmList } from "@/parts/HarmList";
import { Loaded } from "@/parts/Loaded";
import { PowerList } from "@/parts/PowerList";
import { PowerSentence } from "@/parts/PowerSentence";
import { Section } from "@/parts/Section";
import { visible } from "@/parts/foreign";

import { needName } from "./MissingGrants";
import { safety } from "./safetyWords";

const route = getRouteApi("/skills/$id");

export default function Safety({ skill }: { skill: SkillDetail }) {
  const t = useText(safety);
  const navigate = route.useNavigate();
  const scan = useQuery(scanQuery(skill.id));
  const { decision, pattern } = skill.permission;
  return (
    <Stack gap="md" maw={900}>
      <Section title={t.rule}>
        <Text size="sm">
          {t.ruleSays[decision]} {pattern ? t.ruleBy(pattern) : t.ruleDefault}
        </Text>
      </Section>
      {skill.powers && (
        <Section title={t.powers} lead={t.powersWhy}>
          <PowerList powers={skill.powers} />
        </Section>
      )}
      {skill.environment.items.length > 0 && (
        <Section title={t.needs} lead={t.needsWhy}>
          <NeedList needs={skill.environment} />
        </Section>
      )}
      {skill.source === "installed" && <Requires id={skill.id} />}
      <Section title={t.scan} lead={t.scanWhy}>
        <Loaded query={scan} skeleton={<Skeleton h={120} />}>
          {({ findings, files, skipped }) => (
            <Stack gap="sm">
              <HarmList findings={findings} files={files.length} open={(file, line) => void navigate({ search: { tab: "files", file, line } })} />
              {skipped.length > 0 && (
                <Box>
                  <Text size="sm" fw={560}>
                    {t.skipped}
                  </Text>
                  {skipped.map(({ file, reason }) => (
                    <Text key={file + reason} size="xs" c="dimmed" style={{ overflowWrap: "anywhere" }}>
                      {visible(file)}: {visible(reason)}
                    </Text>
                  ))}
                </Box>
              )}
            </Stack>
          )}
        </Loaded>
      </Section>
    </Stack>
  );
}

/** What an installed skill requires, and who requires it. */
function Requires({ id }: { id: string }) {
  const t = useText(safety);
  const { data } = useQuery(dependenciesQuery(id));
  if (!data || (data.needs.length === 0 && data.required_by.length === 0)) return null;
  return (
    <Section title={t.requires} lead={t.requiresWhy}>
      <Stack gap={6}>
        <Tree needs={data.needs} />
        {data.required_by.map((reason) => (
          <Text key={reason} size="sm" style={{ overflowWrap: "anywhere" }}>
            {t.requiredBy}: <PowerSentence>{reason}</PowerSentence>
          </Text>
        ))}
      </Stack>
    </Section>
  );
}

function Tree({ needs }: { needs: readonly Need[] }) {
  const t = useText(safety);
  return (
    <Stack gap={6} component="ul" m={0} p={0} style={{ listStyle: "none" }}>
      {needs.map((need, index) => (
        <Box key={index} component="li">
          <Group gap={8} wrap="wrap">
            <Code>{visible([need.name, need.version].filter(Boolean).join(" "))}</Code>
            <Badge size="xs" variant="light" color={need.met ? "green" : "orange"}>
              {need.met ? t.met : t.unmet}
            </Badge>
            <Text size="xs" c="dimmed" style={{ overflowWrap: "anywhere" }}>
              {[t.needKinds[need.kind] ?? need.kind, need.wanted === need.name ? "" : visible(need.wanted), visible(need.hint ?? "")].filter(Boolean).join(", ")}
            </Text>
          </Group>
          {need.needs.length > 0 && (
            <Box pl="lg" pt={6}>
              <Tree needs={need.needs} />
            </Box>
          )}
        </Box>
      ))}
    </Stack>
  );
}

function NeedList({ needs }: { needs: Needs }) {
  const t = useText(safety);
  return (
    <Stack gap={6}>
      {needs.items.map(({ kind, name, state, where }) => (
        <Group key={kind + name} gap={8} wrap="wrap">
          <Code>{visible(needName(kind, name))}</Code>
          <Badge size="xs" variant="light" color={state === "granted" ? "green" : state === "missing" ? "orange" : "gray"}>
            {t.needStates[state]}
          </Badge>
          <Text size="xs" c="dimmed" style={{ overflowWrap: "anywhere" }}>
            {visible(where.join(", "))}
          </Text>
        </Group>
      ))}
      {needs.command && (
        <Text size="sm">
          {t.grantWith}: <Code>{visible(needs.command)}</Code>
        </Text>
      )}
    </Stack>
  );
}

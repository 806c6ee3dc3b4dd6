/** What a skill may do, who decides about it, and what a scanner says. */
import { Box, Skeleton, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";

import { type SkillDetail, scanQuery } from "@/api/skills";
import { useText } from "@/i18n";
import { HarmList } from "@/parts/HarmList";
import { Loaded } from "@/parts/Loaded";
import { PowerList } from "@/parts/PowerList";
import { Section } from "@/parts/Section";
import { visible } from "@/parts/foreign";

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

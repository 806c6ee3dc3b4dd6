/** One input for two versions, and what each makes of it, side by side. */
import { Box, Button, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { IconPlayerPlay } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type SubmitEvent, useState } from "react";

import { type RunGiven, startRun } from "@/api/runs";
import { useMay } from "@/api/scopes";
import { type SkillDetail, skillQuery } from "@/api/skills";
import type { VersionContent } from "@/api/versions";
import { useText } from "@/i18n";
import { ErrorState } from "@/parts/ErrorState";
import { visible } from "@/parts/foreign";

import { Going } from "./Run";
import { RunInput, useRunInput } from "./RunInput";
import { versions as table } from "./versionWords";

interface Props {
  id: string;
  before: VersionContent;
  after: VersionContent;
}

/** Nothing where the skill cannot be run, or the key may not. */
export default function Playground(props: Props) {
  const skill = useQuery(skillQuery(props.id)).data;
  return useMay("runs:execute") && skill?.run.possible && skill.status === "ok" ? <Both {...props} skill={skill} /> : null;
}

function Both({ skill, before, after }: Props & { skill: SkillDetail }) {
  const t = useText(table);
  const cache = useQueryClient();
  const writing = useRunInput(skill);
  const [begun, setBegun] = useState<readonly string[]>([]);
  const starting = useMutation({
    mutationFn: async (given: RunGiven) => {
      const ids = [];
      for (const { version } of [before, after]) ids.push((await startRun({ ...given, skill: skill.id, fresh: true, version })).run_id);
      return ids;
    },
    onSuccess: async (ids) => {
      setBegun(ids);
      await cache.invalidateQueries({ queryKey: ["runs", "list"] });
    },
  });
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const given = writing.take();
    if (given) starting.mutate(given);
  };
  return (
    <Box component="section" aria-label={t.playground}>
      <Title order={3} size="h3">
        {t.playground}
      </Title>
      <Text size="sm" c="dimmed" mb="sm" maw={680}>
        {t.playgroundWhy}
      </Text>
      <Stack gap="md">
        <form onSubmit={submit} noValidate>
          <Stack gap="md" maw={760}>
            <RunInput writing={writing} />
            <Box>
              <Button type="submit" variant={begun.length > 0 ? "default" : "filled"} loading={starting.isPending} leftSection={<IconPlayerPlay size={16} />}>
                {t.runBoth}
              </Button>
            </Box>
          </Stack>
        </form>
        {starting.error && <ErrorState error={starting.error} />}
        {begun.length > 0 && (
          <SimpleGrid cols={{ base: 1, sm: 2 }} spacing="lg">
            {[before, after].map((one, at) => (
              <Box key={begun[at]} miw={0} role="group" aria-label={visible(one.declared_version ?? one.version)}>
                <Text size="sm" fw={600} mb="xs">
                  <bdi>{visible(one.declared_version ?? one.version)}</bdi>
                </Text>
                <Going id={begun[at] ?? ""} />
              </Box>
            ))}
          </SimpleGrid>
        )}
      </Stack>
    </Box>
  );
}

/** What to do first on a server where nothing has happened yet. */
import { Badge, Box, Button, Group, Text, ThemeIcon, Title } from "@mantine/core";
import { IconCheck, IconMessages, IconPackageImport, IconPlayerPlay, type Icon } from "@tabler/icons-react";
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import type { ReactNode } from "react";

import { catalogQuery } from "@/api/catalog";
import { modelsQuery } from "@/api/chat";
import { installExample } from "@/api/example";
import { useMay } from "@/api/scopes";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { CopyLine } from "@/parts/CopyLine";
import { ButtonLink } from "@/parts/links";
import { notifyProblem } from "@/parts/notify";

import classes from "./HomePage.module.css";
import { home } from "./words";

export default function FirstSteps() {
  const t = useText(home);
  const format = useFormat();
  const models = useQuery({ ...modelsQuery(), enabled: useMay("runs:execute", false) }).data;
  const skills = useInfiniteQuery(catalogQuery({ status: "ok" })).data?.pages[0];
  const count = (skills?.meta.total ?? 0) - (skills?.data.filter(({ source }) => source === "builtin").length ?? 0);
  const ready = models !== undefined && (Boolean(models.usual) || models.providers.some((provider) => provider.ready));
  const example = skills?.data.find(({ has_entry, requires_approval }) => has_entry && !requires_approval);
  return (
    <Box component="section" aria-labelledby="first-steps">
      <Title order={2} size="h3" id="first-steps">
        {t.first}
      </Title>
      <Text size="sm" c="dimmed" mb="md">
        {t.firstLead}
      </Text>
      <ol className={classes.steps}>
        <Step icon={IconPlayerPlay} title={t.steps.example} why={t.steps.exampleWhy}>
          <Example id={example?.id} />
        </Step>
        <Step icon={IconPackageImport} title={t.steps.install} why={t.steps.installWhy} done={count > 0 ? t.steps.have(format.number(count)) : undefined}>
          <ButtonLink to="/install" variant="default">
            {t.steps.installAct}
          </ButtonLink>
        </Step>
        <Step icon={IconMessages} title={t.steps.model} why={t.steps.modelWhy} done={ready ? t.steps.modelReady : undefined}>
          {ready ? (
            <ButtonLink to="/chat" variant="default">
              {t.steps.modelAct}
            </ButtonLink>
          ) : (
            <CopyLine text={`${models?.providers[0]?.variable ?? "OPENAI_API_KEY"}=… skillyard serve`} label={t.copyKey} />
          )}
        </Step>
      </ol>
    </Box>
  );
}

function Step({ icon: Icon, title, why, done, children }: { icon: Icon; title: string; why: string; done?: string | undefined; children: ReactNode }) {
  const t = useText(home);
  return (
    <li>
      <Group gap={10} wrap="nowrap">
        <ThemeIcon size={34} radius="md" variant="light" color={done ? "pine" : "gray"} aria-hidden>
          <Icon size={18} stroke={1.7} />
        </ThemeIcon>
        <Title order={3} size="h3">
          {title}
        </Title>
      </Group>
      <Text size="sm" c="dimmed">
        {why}
      </Text>
      {done && (
        <Badge color="pine" leftSection={<IconCheck size={13} aria-label={t.done} />}>
          {done}
        </Badge>
      )}
      <Box className={classes.act ?? ""} w="100%">
        {children}
      </Box>
    </li>
  );
}

/** Open a skill that can be run; where there is none, install one first. */
function Example({ id }: { id: string | undefined }) {
  const t = useText(home);
  const navigate = useNavigate();
  const cache = useQueryClient();
  const writes = useMay("skills:write");
  const opening = useMutation({
    mutationFn: async () => id ?? (await installExample()),
    onSuccess: async (skill) => {
      if (!id) await cache.invalidateQueries({ queryKey: ["catalog"] });
      await navigate({ to: "/skills/$id", params: { id: skill }, search: { tab: "run" } });
    },
    onError: notifyProblem,
  });
  return (
    <Button leftSection={<IconPlayerPlay size={16} />} loading={opening.isPending} disabled={!id && !writes} onClick={() => opening.mutate()}>
      {t.steps.exampleAct}
    </Button>
  );
}

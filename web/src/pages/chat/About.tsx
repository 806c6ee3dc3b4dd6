/** What holds for a conversation; another model can be chosen for its next turns. */
import { Button, Code, Stack, Text } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { changeConversation, type ConversationDetail, modelsQuery } from "@/api/chat";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { ErrorState } from "@/parts/ErrorState";
import { type Fact, FactList } from "@/parts/FactList";
import { visible } from "@/parts/foreign";
import { notify } from "@/parts/notify";

import { ModelField } from "./Begin";
import classes from "./Panel.module.css";
import { chat } from "./words";

export function About({ conversation: { id, agent, model, settings, folder, created_at } }: { conversation: ConversationDetail }) {
  const t = useText(chat);
  const format = useFormat();
  const cache = useQueryClient();
  const models = useQuery(modelsQuery()).data;
  const [wanted, setWanted] = useState(model ?? "");
  const changing = useMutation({
    mutationFn: changeConversation,
    onSuccess: async () => {
      notify({ message: t.modelSaved });
      await cache.invalidateQueries({ queryKey: ["chat"] });
    },
  });
  const facts: Fact[] = [
    [t.facts.agent, agent && <bdi>{visible(agent)}</bdi>],
    [t.facts.skills, <bdi key="skills">{settings.skills.length ? settings.skills.map((one) => visible(one.replace(/^[\w-]+:/, ""))).join(", ") : t.allSkills}</bdi>],
    [t.facts.rules, Object.keys(settings.permissions).length > 0 && <Rules key="rules" rules={settings.permissions} />],
    [t.facts.workspace, settings.workspace ? t.onOff.on : t.onOff.off],
    [t.facts.folder, folder && <Code key="folder">{visible(folder)}</Code>],
    [t.facts.tools, Object.keys(settings.tool_permissions).length > 0 && <Rules key="tools" rules={settings.tool_permissions} />],
    [t.facts.budget, t.tokens(format.number(settings.index_tokens))],
    [t.facts.began, format.time(created_at)],
  ];
  return (
    <Stack gap="md">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          changing.mutate({ id, model: wanted.trim() });
        }}
      >
        <Stack gap="xs" align="stretch">
          <ModelField label={t.facts.model} value={wanted} change={setWanted} models={models} />
          {changing.error && <ErrorState error={changing.error} />}
          {wanted.trim() && wanted.trim() !== model && (
            <Button type="submit" size="xs" variant="light" loading={changing.isPending}>
              {t.change}
            </Button>
          )}
        </Stack>
      </form>
      <FactList facts={facts} />
      {settings.system_prompt && (
        <div>
          <Text size="xs" fw={600} c="dimmed" mb={4}>
            {t.facts.prompt}
          </Text>
          <pre className={classes.text} tabIndex={0} role="region" aria-label={t.facts.prompt}>
            {visible(settings.system_prompt)}
          </pre>
        </div>
      )}
    </Stack>
  );
}

function Rules({ rules }: { rules: Readonly<Record<string, string>> }) {
  return Object.entries(rules).map(([pattern, rule]) => (
    <div key={pattern}>
      <Code>{visible(pattern)}</Code> {rule}
    </div>
  ));
}

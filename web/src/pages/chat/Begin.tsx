/** A conversation before its first word: with which agent, or which model and skills. */
import { Alert, Autocomplete, Box, Checkbox, Code, NativeSelect, Pill, SegmentedControl, Stack, Text, Textarea, TextInput } from "@mantine/core";
import { IconKey } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";

import { agentsQuery } from "@/api/agents";
import { type ModelChoices, modelsQuery } from "@/api/chat";
import { sessionQuery } from "@/api/keys";
import { useText } from "@/i18n";
import { CopyLine } from "@/parts/CopyLine";
import { ErrorState } from "@/parts/ErrorState";
import { visible } from "@/parts/foreign";
import { AnchorLink } from "@/parts/links";
import { More } from "@/parts/More";
import { SkillPicker } from "@/parts/SkillPicker";
import { ToolRules } from "@/parts/ToolRules";

import classes from "./Begin.module.css";
import type { Choice, Choose } from "./choice";
import page from "./ChatPage.module.css";
import { chat } from "./words";

interface Props {
  choice: Choice;
  choose: Choose;
}

export function Begin({ choice, choose }: Props) {
  const t = useText(chat);
  const models = useQuery(modelsQuery());
  const known = models.data;
  const none = known && !known.usual && !known.providers.some(({ ready }) => ready);
  return (
    <Box className={page.scroll}>
      <Box className={classes.begin}>
        <Text c="dimmed" mb="lg">
          {t.freshLead}
        </Text>
        {models.error && <ErrorState error={models.error} again={models.refetch} />}
        {none && <NoKey models={known} />}
        <Stack gap="md">
          <SegmentedControl
            aria-label={t.begin.how}
            value={choice.how}
            onChange={(how) => choose({ how })}
            data={[
              { value: "own", label: t.begin.own },
              { value: "agent", label: t.begin.agent },
            ]}
          />
          {choice.how === "agent" ? <WithAgent choice={choice} choose={choose} /> : <WithModel choice={choice} choose={choose} models={known} />}
        </Stack>
      </Box>
    </Box>
  );
}

function NoKey({ models }: { models: ModelChoices }) {
  const t = useText(chat);
  return (
    <Alert color="yellow" icon={<IconKey size={20} />} title={t.begin.noKey} mb="lg">
      <Stack gap={8}>
        <Text size="sm">{t.begin.noKeyWhy}</Text>
        <Box>
          {models.providers.slice(0, 3).map(({ name, variable }) => (
            <Text size="sm" key={name}>
              <Code>{variable}</Code> · {name}
            </Text>
          ))}
        </Box>
        <Text size="sm">{t.begin.noKeyLocal}</Text>
        <CopyLine text="SKILLYARD_MODEL=llama3@http://127.0.0.1:11434/v1 skillyard serve" label="SKILLYARD_MODEL" />
      </Stack>
    </Alert>
  );
}

function WithAgent({ choice, choose }: Props) {
  const t = useText(chat);
  const agents = useQuery(agentsQuery()).data?.data ?? [];
  const agent = agents.find(({ name }) => name === choice.agent);
  return (
    <>
      <NativeSelect
        label={t.begin.agentLabel}
        data={[{ value: "", label: "—" }, ...agents.map(({ name }) => ({ value: name, label: visible(name) }))]}
        value={choice.agent}
        onChange={({ currentTarget }) => choose({ agent: currentTarget.value })}
        description={agents.length === 0 ? t.begin.noAgents : undefined}
      />
      {agent ? (
        <Text size="sm" c="dimmed" lineClamp={3}>
          <bdi>{visible([agent.description, agent.model].filter(Boolean).join(" · "))}</bdi>
        </Text>
      ) : (
        agents.length === 0 && (
          <AnchorLink to="/agents/$id" params={{ id: "new" }} size="sm">
            {t.begin.makeAgent}
          </AnchorLink>
        )
      )}
      <Folder choice={choice} choose={choose} />
    </>
  );
}

export function ModelField({ value, change, models, label }: { value: string; change: (model: string) => void; models: ModelChoices | undefined; label: string }) {
  const t = useText(chat);
  const ready = models?.providers.filter((provider) => provider.ready && provider.models.length > 0) ?? [];
  return (
    <Autocomplete
      label={label}
      description={models?.usual ? t.begin.usual(visible(models.usual)) : t.begin.modelHint}
      placeholder={models?.usual ?? "openai:gpt-5"}
      value={value}
      maxLength={300}
      onChange={change}
      data={ready.map((provider) => ({ group: provider.name, items: [...provider.models] }))}
      limit={40}
    />
  );
}

function WithModel({ choice, choose, models }: Props & { models: ModelChoices | undefined }) {
  const t = useText(chat);
  return (
    <>
      <ModelField label={t.begin.model} value={choice.model} change={(model) => choose({ model })} models={models} />
      <Skills choice={choice} choose={choose} />
      <Folder choice={choice} choose={choose} />
      <More label={t.begin.more} opened={Boolean(choice.prompt || choice.askFirst || !choice.workspace || Object.keys(choice.tools).length > 0)}>
        <Textarea label={t.begin.prompt} value={choice.prompt} maxLength={100_000} autosize minRows={3} maxRows={10} onChange={({ currentTarget }) => choose({ prompt: currentTarget.value })} />
        <Checkbox label={t.begin.askFirst} checked={choice.askFirst} onChange={({ currentTarget }) => choose({ askFirst: currentTarget.checked })} />
        <Checkbox label={t.begin.workspace} description={t.begin.workspaceHint} checked={choice.workspace} onChange={({ currentTarget }) => choose({ workspace: currentTarget.checked })} />
        <More label={t.begin.tools} opened={Object.keys(choice.tools).length > 0}>
          <ToolRules rules={choice.tools} workspace={choice.workspace} change={(tools) => choose({ tools })} />
        </More>
      </More>
    </>
  );
}

/** Where the conversation works, for who sits at the server's machine. */
function Folder({ choice, choose }: Props) {
  const t = useText(chat);
  if (!useQuery(sessionQuery()).data?.local) return null;
  return (
    <TextInput
      label={t.begin.folder}
      description={t.begin.folderHint}
      placeholder="/home/me/project"
      value={choice.folder}
      maxLength={4096}
      spellCheck={false}
      onChange={({ currentTarget }) => choose({ folder: currentTarget.value })}
    />
  );
}

function Skills({ choice: { skills }, choose }: Props) {
  const t = useText(chat);
  return (
    <Box>
      <SkillPicker
        label={t.begin.skills}
        description={t.begin.skillsHint}
        placeholder={t.begin.add}
        fits={({ id }) => !skills.some((skill) => skill.id === id)}
        pick={({ id, name }) => choose({ skills: [...skills, { id, name }] })}
      />
      {skills.length > 0 && (
        <Pill.Group mt={8}>
          {skills.map(({ id, name }) => (
            <Pill key={id} withRemoveButton removeButtonProps={{ "aria-label": t.dropped(visible(name)), "aria-hidden": false, tabIndex: 0 }} onRemove={() => choose({ skills: skills.filter((one) => one.id !== id) })}>
              <bdi>{visible(name)}</bdi>
            </Pill>
          ))}
        </Pill.Group>
      )}
    </Box>
  );
}

/** The agent as it is written: its name, prompt, model and skills. */
import { Checkbox, NumberInput, Stack, Textarea, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { type AgentBody, promptPart, promptQuery } from "@/api/agents";
import { useText } from "@/i18n";
import { useDebouncedData } from "@/parts/debounced";
import { Section } from "@/parts/Section";
import { SkillPicker } from "@/parts/SkillPicker";
import { ToolRules } from "@/parts/ToolRules";

import { agents as table } from "../agents/words";
import { CommandRules } from "./CommandRules";
import { SkillSelection } from "./SkillSelection";

interface Props {
  draft: AgentBody;
  change: (part: Partial<AgentBody>) => void;
  /** Why it could not be saved. */
  error: unknown;
}

export function Draft({ draft, change, error }: Props) {
  const t = useText(table);
  const { settings } = draft;
  const written = useDebouncedData({ ...draft, name: draft.name.trim() || "draft" }, 250);
  const shares = useQuery(promptQuery(promptPart(written), "")).data?.skills ?? [];
  return (
    <Stack gap="md">
      <TextInput label={t.name} value={draft.name} maxLength={100} required onChange={({ currentTarget }) => change({ name: currentTarget.value })} />
      <TextInput
        label={t.description}
        description={t.descriptionHint}
        value={draft.description}
        maxLength={2000}
        onChange={({ currentTarget }) => change({ description: currentTarget.value })}
      />
      <Textarea
        label={t.prompt}
        description={t.promptHint}
        value={draft.system_prompt}
        maxLength={200_000}
        autosize
        minRows={6}
        maxRows={20}
        onChange={({ currentTarget }) => change({ system_prompt: currentTarget.value })}
      />
      <Section title={t.skills} lead={t.skillsWhy}>
        <Stack gap="sm">
          <SkillSelection skills={draft.skills} shares={shares} change={(skills) => change({ skills })} />
          <Add draft={draft} change={change} />
        </Stack>
      </Section>
      <Section title={t.tools} lead={t.toolsWhy}>
        <Stack gap="md">
          <Checkbox
            label={t.workspace}
            description={t.workspaceHint}
            checked={settings.workspace ?? true}
            onChange={({ currentTarget }) => change({ settings: { ...settings, workspace: currentTarget.checked ? null : false } })}
          />
          <ToolRules
            rules={settings.tool_permissions ?? {}}
            workspace={settings.workspace ?? true}
            change={(rules) => change({ settings: { ...settings, tool_permissions: Object.keys(rules).length > 0 ? rules : null } })}
          />
          {(settings.workspace ?? true) && <CommandRules settings={settings} change={(next) => change({ settings: next })} error={error} />}
        </Stack>
      </Section>
      <TextInput
        label={t.model}
        description={t.modelHint}
        value={draft.model ?? ""}
        maxLength={200}
        onChange={({ currentTarget }) => change({ model: currentTarget.value || null })}
      />
      <NumberInput
        label={t.budget}
        description={t.budgetHint}
        placeholder={t.budgetNone}
        value={settings.index_tokens ?? ""}
        min={0}
        max={100_000}
        step={100}
        allowDecimal={false}
        onChange={(value) => change({ settings: { ...settings, index_tokens: typeof value === "number" ? value : null } })}
      />
    </Stack>
  );
}

function Add({ draft, change }: Omit<Props, "error">) {
  const t = useText(table);
  const { skills } = draft;
  const taken = new Set(skills.map(({ skill }) => skill.replace(/^installed:/, "")));
  return (
    <SkillPicker
      placeholder={t.add}
      fits={({ id }) => !taken.has(id.replace(/^installed:/, ""))}
      pick={({ id }) => change({ skills: [...skills, { skill: id, version_lock: null, auto_update: true }] })}
    />
  );
}

/** The agent as it is written: its name, prompt, model and skills. */
import { Autocomplete, NumberInput, Stack, Textarea, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { type AgentBody, promptQuery } from "@/api/agents";
import { searchQuery } from "@/api/catalog";
import { useText } from "@/i18n";
import { visible } from "@/parts/foreign";
import { Section } from "@/parts/Section";

import { agents as table } from "../agents/words";
import { Chosen } from "./Chosen";

interface Props {
  draft: AgentBody;
  change: (part: Partial<AgentBody>) => void;
}

export function Draft({ draft, change }: Props) {
  const t = useText(table);
  const { settings } = draft;
  const [written] = useDebouncedValue({ ...draft, name: draft.name.trim() || "draft" }, 250);
  const shares = useQuery(promptQuery(written, "")).data?.skills ?? [];
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
          <Chosen skills={draft.skills} shares={shares} change={(skills) => change({ skills })} />
          <Add draft={draft} change={change} />
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

function Add({ draft, change }: Props) {
  const t = useText(table);
  const [typed, setTyped] = useState("");
  const [question] = useDebouncedValue(typed.trim(), 150);
  const found = useQuery({ ...searchQuery(question, 12), enabled: question.length > 1 });
  const skills = draft.skills;
  const taken = new Set(skills.map(({ skill }) => skill.replace(/^installed:/, "")));
  const offered = new Map(
    (question.length > 1 ? (found.data ?? []) : [])
      .filter(({ skill }) => !taken.has(skill.id.replace(/^installed:/, "")))
      .map(({ skill }) => [`${visible(skill.name)} · ${visible(skill.description).slice(0, 90)}`, skill.id]),
  );
  return (
    <Autocomplete
      aria-label={t.add}
      placeholder={t.add}
      value={typed}
      onChange={setTyped}
      data={[...offered.keys()]}
      filter={({ options }) => options}
      selectFirstOptionOnChange
      onOptionSubmit={(label) => {
        const skill = offered.get(label);
        if (skill) change({ skills: [...skills, { skill, version_lock: null, auto_update: true }] });
        setTimeout(() => setTyped("")); // after the label was put into the field
      }}
    />
  );
}

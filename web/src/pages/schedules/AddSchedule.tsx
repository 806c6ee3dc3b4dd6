/** Makes a schedule: which skill, when, with what. */
import { ActionIcon, Alert, Group, Input, NativeSelect, Skeleton, Stack, TextInput, Tooltip } from "@mantine/core";
import { IconX } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type SubmitEvent, useState } from "react";

import { addSchedule, type NewSchedule, schedulesQuery } from "@/api/schedules";
import { type SkillDetail, skillQuery } from "@/api/skills";
import { useText } from "@/i18n";
import { RunInput, useRunInput } from "@/pages/skill/RunInput";
import { Dialog } from "@/parts/Dialog";
import { visible } from "@/parts/foreign";
import { FormFooter } from "@/parts/FormFooter";
import { AnchorLink } from "@/parts/links";
import { keepWritten, useWritten } from "@/parts/kept";
import { Loaded } from "@/parts/Loaded";
import { notify } from "@/parts/notify";
import { SkillPicker } from "@/parts/SkillPicker";

import { timesOf, usual, type When, WhenFields } from "./WhenFields";
import { schedules } from "./words";

/** What to do about runs that were missed. */
export const MISSES = ["once", "skip", "all"] as const satisfies readonly NewSchedule["missed"][];

interface Props {
  /** The skill that is chosen already. */
  skill: string | undefined;
  close: () => void;
}

export default function AddSchedule({ skill, close }: Props) {
  const t = useText(schedules);
  const [chosen, setChosen] = useState(skill);
  return (
    <Dialog opened close={close} title={t.make} size="xl" centered={false}>
      {chosen === undefined ? (
        <Stack gap="md">
          <SkillPicker label={t.skill} placeholder={t.findSkill} required fits={({ status }) => status === "ok"} pick={({ id }) => setChosen(id)} />
          <FormFooter cancel={close} submit={t.submit} busy={false} disabled error={null} />
        </Stack>
      ) : (
        <OfSkill key={chosen} id={chosen} close={close} other={() => setChosen(undefined)} />
      )}
    </Dialog>
  );
}

function OfSkill({ id, close, other }: { id: string; close: () => void; other: () => void }) {
  const t = useText(schedules);
  const detail = useQuery(skillQuery(id));
  const runs = detail.data?.run.possible === true;
  return (
    <Stack gap="md">
      <Input.Wrapper label={t.skill} labelElement="div">
        <Group gap={4} wrap="nowrap">
          <AnchorLink to="/skills/$id" params={{ id }} size="sm" fw={560} truncate>
            <bdi>{visible(detail.data?.name ?? id)}</bdi>
          </AnchorLink>
          <Tooltip label={t.otherSkill}>
            <ActionIcon size="sm" aria-label={t.otherSkill} onClick={other}>
              <IconX size={15} />
            </ActionIcon>
          </Tooltip>
        </Group>
      </Input.Wrapper>
      <Loaded query={detail} skeleton={<Skeleton h={420} />}>
        {(skill) => (runs ? <Form skill={skill} close={close} /> : <CannotRun skill={skill} />)}
      </Loaded>
      {!runs && <FormFooter cancel={close} submit={t.submit} busy={false} disabled error={null} />}
    </Stack>
  );
}

function CannotRun({ skill }: { skill: SkillDetail }) {
  const t = useText(schedules);
  return (
    <Alert color="yellow" title={t.cannotRun}>
      {visible(skill.run.story)}
    </Alert>
  );
}

interface Written {
  name: string;
  when: When;
  missed: NewSchedule["missed"];
}

function Form({ skill, close }: { skill: SkillDetail; close: () => void }) {
  const t = useText(schedules);
  const cache = useQueryClient();
  const place = `schedule:${skill.id}`;
  const [{ name, when, missed }, write] = useWritten<Written>(place, () => ({ name: nameFor(skill), when: usual(), missed: "once" }));
  const writing = useRunInput(skill);
  const adding = useMutation({
    mutationFn: addSchedule,
    onSuccess: () => {
      keepWritten(place, {});
      notify({ message: t.added });
      close();
    },
    onSettled: () => cache.invalidateQueries(schedulesQuery()),
  });
  const times = timesOf(when);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const given = writing.take();
    if (given && times) adding.mutate({ when: { ...times, name: name.trim(), skill: skill.id, missed, priority: 0 }, given });
  };
  return (
    <form onSubmit={submit}>
      <Stack gap="md">
        <TextInput label={t.name} description={t.nameHint} value={name} maxLength={63} onChange={({ currentTarget }) => write({ name: currentTarget.value })} required data-autofocus />
        <WhenFields when={when} change={(part) => write({ when: { ...when, ...part } })} />
        <RunInput writing={writing} />
        <NativeSelect
          label={t.missed}
          description={t.missedHint}
          data={MISSES.map((value) => ({ value, label: t.misses[value] }))}
          value={missed}
          onChange={({ currentTarget: { value } }) => write({ missed: MISSES.find((one) => one === value) ?? "once" })}
        />
        <FormFooter cancel={close} submit={t.submit} busy={adding.isPending} disabled={!name.trim() || !times} error={adding.error} />
      </Stack>
    </form>
  );
}

/** A name to begin with: that of the skill, as far as one of a schedule may be so. */
const nameFor = ({ name }: SkillDetail): string =>
  name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .slice(0, 63)
    .replace(/^-+|-+$/g, "");

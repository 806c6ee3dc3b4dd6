/** Changes a schedule: its times, which version it runs, what it is given, and whether it is on. */
import { NativeSelect, Skeleton, Stack, Switch, Text } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, type SubmitEvent, useRef, useState } from "react";

import type { RunGiven } from "@/api/runs";
import { changeSchedule, type Schedule, type ScheduleChange } from "@/api/schedules";
import { installedId, type SkillDetail, skillQuery } from "@/api/skills";
import { type Version, versionsQuery } from "@/api/versions";
import { useText } from "@/i18n";
import { RunInput, useRunInput } from "@/pages/skill/RunInput";
import { writeScheduled } from "@/pages/skill/writeAgain";
import { visible } from "@/parts/foreign";
import { FormDialog } from "@/parts/FormDialog";
import { FormFooter } from "@/parts/FormFooter";
import { Loaded } from "@/parts/Loaded";
import { notify } from "@/parts/notify";

import { MISSES } from "./AddSchedule";
import { timesOf, type When, WhenFields, whenOf } from "./WhenFields";
import { schedules } from "./words";

interface Props {
  schedule: Schedule;
  close: () => void;
}

interface Chosen {
  when: When;
  missed: Schedule["missed"];
  paused: boolean;
  /** The version that runs, "" for the one that serves. */
  version: string;
}

export default function EditSchedule({ schedule, close }: Props) {
  const t = useText(schedules);
  const isEvent = schedule.skill.startsWith("event:");
  const detail = useQuery({ ...skillQuery(schedule.skill), enabled: !isEvent });
  const known = isEvent ? undefined : installedId(schedule.skill);
  const versions = useQuery({ ...versionsQuery(known ?? ""), enabled: known !== undefined });
  const [changed, setChanged] = useState(false);
  const settled = useRef(false); // before the window is closed
  const form = {
    schedule,
    close: () => {
      settled.current = true;
      close();
    },
    touch: () => setChanged(true),
  };
  return (
    <FormDialog opened close={close} unsaved={changed} settled={() => settled.current} title={t.editTitle(visible(schedule.name))} size="xl" centered={false}>
      {isEvent ? (
        <Form {...form} versions={[]} input={null} take={() => undefined} />
      ) : (
        <Loaded query={detail} skeleton={<Skeleton h={420} />}>
          {(skill) =>
            known !== undefined && versions.isPending ? <Skeleton h={420} /> : <WithInput {...form} skill={skill} versions={(versions.data ?? []).filter((one) => !one.yanked && !one.removed && one.status !== "failed")} />
          }
        </Loaded>
      )}
    </FormDialog>
  );
}

interface FormProps extends Props {
  versions: readonly Version[];
  touch: () => void;
}

function WithInput({ skill, ...others }: FormProps & { skill: SkillDetail }) {
  const t = useText(schedules);
  const { schedule } = others;
  const place = `schedule-edit:${schedule.name}`;
  useState(() => writeScheduled(skill, place, schedule)); // before the fields read it
  const writing = useRunInput(skill, place);
  const input = (
    <Stack gap="xs">
      {schedule.files.length > 0 && (
        <Text size="sm" c="dimmed">
          {t.keepsFiles(schedule.files.map(visible).join(", "))}
        </Text>
      )}
      <RunInput writing={writing} context={false} />
    </Stack>
  );
  return <Form {...others} input={input} take={writing.take} />;
}

function Form({ schedule, close, versions, touch, input, take }: FormProps & { input: ReactNode; take: () => RunGiven | undefined }) {
  const t = useText(schedules);
  const cache = useQueryClient();
  const pinned = versions.find(({ digest }) => digest === schedule.digest)?.version ?? "";
  const [chosen, setChosen] = useState<Chosen>(() => ({ when: whenOf(schedule), missed: schedule.missed, paused: schedule.paused, version: pinned }));
  const choose = (part: Partial<Chosen>) => {
    touch();
    setChosen((before) => ({ ...before, ...part }));
  };
  const changing = useMutation({
    mutationFn: changeSchedule,
    onSuccess: () => {
      notify({ message: t.changed });
      close();
    },
    onSettled: () => cache.invalidateQueries({ queryKey: ["schedules"] }),
  });
  const times = timesOf(chosen.when);
  const sameTimes = JSON.stringify(times) === JSON.stringify(timesOf(whenOf(schedule)));
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const given = input ? take() : undefined;
    if (input && !given) return;
    const change: ScheduleChange = {
      missed: chosen.missed,
      paused: chosen.paused,
      ...(times && !sameTimes ? { ...(times.cron ? { cron: times.cron } : { at: times.at ?? null }), time_zone: times.time_zone } : {}),
      ...(chosen.version !== pinned ? { version: chosen.version || null } : {}),
    };
    changing.mutate({ name: schedule.name, change, given });
  };
  return (
    <form onSubmit={submit} onChange={touch}>
      <Stack gap="md">
        <Switch label={t.on} description={t.onHint} checked={!chosen.paused} onChange={({ currentTarget }) => choose({ paused: !currentTarget.checked })} />
        <WhenFields when={chosen.when} change={(part) => choose({ when: { ...chosen.when, ...part } })} />
        {versions.length > 0 && (
          <NativeSelect
            label={t.version}
            description={t.versionHint}
            data={[{ value: "", label: t.serving }, ...versions.map(({ version, declared_version }) => ({ value: version, label: declared_version ? `${visible(declared_version)} · ${version}` : version }))]}
            value={chosen.version}
            onChange={({ currentTarget }) => choose({ version: currentTarget.value })}
          />
        )}
        {input}
        <NativeSelect
          label={t.missed}
          description={t.missedHint}
          data={MISSES.map((value) => ({ value, label: t.misses[value] }))}
          value={chosen.missed}
          onChange={({ currentTarget: { value } }) => choose({ missed: MISSES.find((one) => one === value) ?? "once" })}
        />
        <FormFooter cancel={close} submit={t.save} busy={changing.isPending} disabled={!times && !(schedule.next_at === null)} error={changing.error} />
      </Stack>
    </form>
  );
}

/** What was found in a source, and whether it shall be installed. */
import { Button, Group, Text, Title } from "@mantine/core";
import { IconMoodEmpty } from "@tabler/icons-react";
import { useState } from "react";

import type { Inspected, InstallOrder } from "@/api/installing";
import { useText } from "@/i18n";
import { EmptyState } from "@/parts/EmptyState";

import { FoundSkill } from "./FoundSkill";
import classes from "./Review.module.css";
import { install as table } from "./words";

interface Props {
  skills: readonly Inspected[];
  busy: boolean;
  back: () => void;
  install: (order: Omit<InstallOrder, "origin">) => void;
}

/** What can be agreed to although it is refused by default. */
export const OVERRULED: Record<string, "force" | "acceptSigner" | "acceptSource" | "acceptFindings"> = {
  local_edits: "force",
  version_unusable: "force",
  signer_changed: "acceptSigner",
  source_changed: "acceptSource",
  grave_findings: "acceptFindings",
};

const possible = ({ refusals }: Inspected) => refusals.every(({ code }) => code in OVERRULED);

export function Review({ skills, busy, back, install }: Props) {
  const t = useText(table);
  const [taken, setTaken] = useState<ReadonlySet<string>>(() => new Set(skills.filter((skill) => possible(skill) && !skill.unchanged).map(({ skill_id }) => skill_id)));
  const [agreed, setAgreed] = useState<ReadonlySet<string>>(new Set());
  const [overruled, setOverruled] = useState<ReadonlySet<string>>(new Set());
  const flip = (set: (change: (before: ReadonlySet<string>) => Set<string>) => void) => (id: string, on: boolean) =>
    set((before) => {
      const after = new Set(before);
      if (on) after.add(id);
      else after.delete(id);
      return after;
    });
  const wanted = skills.filter(({ skill_id }) => taken.has(skill_id));
  const waiting = wanted.some(
    ({ skill_id, change, refusals }) => (change !== null && !agreed.has(skill_id)) || (refusals.length > 0 && !overruled.has(skill_id)),
  );
  const why = !skills.some(possible) ? t.cannot : wanted.length === 0 ? t.none : waiting ? t.needAgree : undefined;
  const begin = () => {
    const codes = new Set(wanted.flatMap(({ refusals }) => refusals.map(({ code }) => OVERRULED[code])));
    install({
      skills: wanted.map(({ name }) => name),
      consent: wanted.flatMap(({ change }) => (change ? [change.consent] : [])),
      force: codes.has("force"),
      acceptSigner: codes.has("acceptSigner"),
      acceptSource: codes.has("acceptSource"),
      accept: [...new Set(wanted.flatMap((skill) => (skill.refusals.some(({ code }) => code === "grave_findings") ? skill.findings.map(({ rule }) => rule) : [])))],
    });
  };
  if (skills.length === 0)
    return (
      <EmptyState icon={IconMoodEmpty} title={t.problems["no-skill"]} hint={t.problemsHint}>
        <Button variant="light" onClick={back}>
          {t.other}
        </Button>
      </EmptyState>
    );
  return (
    <>
      <Group justify="space-between" mb="md">
        <div>
          <Title order={2}>{t.found(skills.length)}</Title>
          <Text size="sm" c="dimmed">
            {t.nothing}
          </Text>
        </div>
        <Button variant="default" onClick={back} disabled={busy}>
          {t.other}
        </Button>
      </Group>
      {skills.map((skill) => (
        <FoundSkill
          key={skill.skill_id + skill.digest}
          skill={skill}
          single={skills.length === 1}
          possible={possible(skill)}
          taken={taken.has(skill.skill_id)}
          take={(on) => flip(setTaken)(skill.skill_id, on)}
          agreed={agreed.has(skill.skill_id)}
          agree={(on) => flip(setAgreed)(skill.skill_id, on)}
          overruled={overruled.has(skill.skill_id)}
          overrule={(on) => flip(setOverruled)(skill.skill_id, on)}
        />
      ))}
      <Group className={classes.bar} justify="flex-end" gap="md">
        {why && (
          <Text size="sm" c="dimmed">
            {why}
          </Text>
        )}
        <Button size="md" onClick={begin} loading={busy} disabled={why !== undefined}>
          {t.install(Math.max(1, wanted.length))}
        </Button>
      </Group>
    </>
  );
}

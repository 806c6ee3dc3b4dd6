/** The skills of an agent, in their order. */
import { ActionIcon, Box, Group, Text, TextInput } from "@mantine/core";
import { IconArrowDown, IconArrowUp, IconX } from "@tabler/icons-react";

import type { AgentBody, AgentShare } from "@/api/agents";
import { useText } from "@/i18n";
import { visible } from "@/parts/foreign";
import { Empty } from "@/parts/Section";

import { agents as table } from "../agents/words";
import classes from "./AgentPage.module.css";

type Choice = NonNullable<AgentBody["skills"]>[number];

interface Props {
  skills: readonly Choice[];
  /** What is known of them, as far as it has come. */
  shares: readonly AgentShare[];
  change: (skills: Choice[]) => void;
}

export function SkillSelection({ skills, shares, change }: Props) {
  const t = useText(table);
  if (!skills.length) return <Empty>{t.all}</Empty>;
  const move = (from: number, by: number) => {
    const moved = [...skills];
    const [one] = moved.splice(from, 1);
    if (one) moved.splice(from + by, 0, one);
    change(moved);
  };
  return (
    <ol className={classes.skills}>
      {skills.map((choice, index) => {
        const share = shares.find(({ id }) => id === choice.skill || id === `installed:${choice.skill}`);
        const name = visible(share?.name ?? choice.skill);
        return (
          <li key={choice.skill} className={classes.skill}>
            <Box flex="1 1 200px" miw={0}>
              <Text size="sm" fw={560} className={classes.word ?? ""}>
                <bdi>{name}</bdi>
              </Text>
              <Text size="xs" c="dimmed" lineClamp={2} className={classes.word ?? ""}>
                <bdi>{visible(share?.description ?? choice.skill)}</bdi>
              </Text>
            </Box>
            <Group gap={8} wrap="nowrap">
              <TextInput
                size="xs"
                w={92}
                aria-label={`${t.lock}: ${name}`}
                placeholder={t.lockHint}
                value={choice.version_lock ?? ""}
                onChange={({ currentTarget: { value } }) =>
                  change(skills.map((one, at) => (at === index ? { ...one, version_lock: value || null } : one)))
                }
              />
              <ActionIcon size="sm" aria-label={t.up(name)} disabled={index === 0} onClick={() => move(index, -1)}>
                <IconArrowUp size={15} />
              </ActionIcon>
              <ActionIcon size="sm" aria-label={t.down(name)} disabled={index === skills.length - 1} onClick={() => move(index, 1)}>
                <IconArrowDown size={15} />
              </ActionIcon>
              <ActionIcon size="sm" aria-label={t.remove(name)} onClick={() => change(skills.filter((_, at) => at !== index))}>
                <IconX size={15} />
              </ActionIcon>
            </Group>
          </li>
        );
      })}
    </ol>
  );
}

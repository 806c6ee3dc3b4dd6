/** The prompts by which a skill should be found: each with what was found, and a better description where one helps. */
import { Badge, Box, Code, Group, Stack, Text, UnstyledButton } from "@mantine/core";
import { IconChevronRight } from "@tabler/icons-react";
import { useState } from "react";

import type { RunDetail, RunStep } from "@/api/runs";
import type { SkillDetail } from "@/api/skills";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { CopyIcon } from "@/parts/CopyIcon";
import { visible } from "@/parts/foreign";
import { AnchorLink } from "@/parts/links";
import { Empty } from "@/parts/Section";

import { Checks } from "./Checks";
import classes from "./Tests.module.css";
import { triggers } from "./testWords";

export default function Triggers({ skill }: { skill: SkillDetail }) {
  return <Checks skill={skill} kind="eval" Case={Prompt} Sum={Sum} />;
}

interface Came {
  passed: boolean;
  /** Whether the skill should be found. */
  expected: boolean;
  rank: number | null;
  found: { id: string; name: string; confidence: number; matched: string[] }[];
}

/** One prompt; one that failed stands open. */
function Prompt({ step }: { step: RunStep }) {
  const t = useText(triggers);
  const format = useFormat();
  const { passed, expected, rank, found } = step.output as Came;
  const [open, setOpen] = useState(!passed);
  const said = expected ? (rank === null ? t.missed : t.rank(rank)) : passed ? t.quiet : t.alarm;
  return (
    <Box role="listitem">
      <UnstyledButton className={classes.case ?? ""} onClick={() => setOpen(!open)} aria-expanded={open}>
        <IconChevronRight size={15} className={classes.chevron} data-open={open} />
        <Badge color={passed ? (rank !== null && rank > 1 ? "yellow" : "pine") : "red"} className={classes.mark ?? ""}>
          {said}
        </Badge>
        <Text size="sm" fw={560} lineClamp={2} className={classes.name ?? ""}>
          <bdi>{visible(step.stepName)}</bdi>
        </Text>
      </UnstyledButton>
      {open && (
        <Box className={classes.detail ?? ""}>
          <Text size="xs" c="dimmed" mb={6}>
            {t.found}
          </Text>
          {found.length === 0 && <Empty>{t.foundNone}</Empty>}
          <ol className={classes.found}>
            {found.map(({ id, name, confidence, matched }) => (
              <li key={id}>
                <span className={classes.sure}>{format.share(confidence)}</span>
                <Box miw={0}>
                  <AnchorLink to="/skills/$id" params={{ id }} size="sm">
                    <bdi>{visible(name)}</bdi>
                  </AnchorLink>
                  {matched.length > 0 && (
                    <Text size="xs" c="dimmed" style={{ overflowWrap: "anywhere" }}>
                      {t.because} <bdi>{visible(matched.map((one) => one.slice(one.indexOf(":") + 1)).join(", "))}</bdi>
                    </Text>
                  )}
                </Box>
              </li>
            ))}
          </ol>
        </Box>
      )}
    </Box>
  );
}

interface Sums {
  hits?: Record<string, number | null>;
  false_alarms?: number | null;
  suggestions?: { description: string; added: string[]; before: number; after: number }[];
}

function Sum({ run }: { run: RunDetail }) {
  const t = useText(triggers);
  const format = useFormat();
  const { hits, false_alarms, suggestions = [] } = (run.output ?? {}) as Sums;
  const first = hits?.["1"];
  const facts = [typeof first === "number" && t.first(format.share(first)), typeof false_alarms === "number" && t.alarms(format.share(false_alarms))].filter(Boolean);
  return (
    <>
      {facts.length > 0 && (
        <Text size="sm" c="dimmed">
          {facts.join(" · ")}
        </Text>
      )}
      {suggestions.map(({ description, added, before, after }) => (
        <Stack key={description} gap={8} component="section" aria-label={t.suggestions} className={classes.proposal ?? ""}>
          <Group justify="space-between" wrap="nowrap" align="flex-start">
            <Text size="sm" fw={600}>
              {t.suggestions}
            </Text>
            <CopyIcon value={description} />
          </Group>
          <Text size="sm" style={{ overflowWrap: "anywhere" }}>
            <bdi>{visible(description)}</bdi>
          </Text>
          <Group gap={6}>
            <Text size="xs" c="dimmed">
              {t.added}
            </Text>
            {added.map((word) => (
              <Code key={word}>{visible(word)}</Code>
            ))}
          </Group>
          <Text size="xs" c="dimmed">
            {t.heldOut(format.share(before), format.share(after))}. {t.suggestionsWhy}
          </Text>
        </Stack>
      ))}
    </>
  );
}

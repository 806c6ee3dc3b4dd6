/** The steps of a run, each where it began and as long as it took; one step opens to what went in and came out. */
import { Badge, Box, Collapse, Group, Text, UnstyledButton } from "@mantine/core";
import { IconChevronRight } from "@tabler/icons-react";
import { useState } from "react";

import type { RunStep } from "@/api/runs";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { visible } from "@/parts/foreign";
import { Value } from "@/parts/Value";

import { runs } from "../runs/words";
import classes from "./Waterfall.module.css";

export const together = (steps: readonly RunStep[]): number => steps.reduce((sum, { duration }) => sum + Math.max(0, duration), 0);

export function Waterfall({ steps }: { steps: readonly RunStep[] }) {
  const whole = together(steps) || 1;
  const longest = steps.length > 1 ? Math.max(...steps.map(({ duration }) => duration)) : Infinity;
  const begins = steps.map((_, index) => together(steps.slice(0, index)));
  return (
    <Box component="ol" className={classes.steps ?? ""}>
      {steps.map((step, index) => (
        <Step
          key={`${step.stepId}-${index}`}
          step={step}
          begin={(begins[index] ?? 0) / whole}
          share={Math.max(0, step.duration) / whole}
          slowest={step.duration === longest && longest > 0}
        />
      ))}
    </Box>
  );
}

function Step({ step, begin, share, slowest }: { step: RunStep; begin: number; share: number; slowest: boolean }) {
  const t = useText(runs);
  const format = useFormat();
  const [opened, setOpened] = useState(false);
  const failed = step.error !== null && step.error !== undefined;
  return (
    <li className={classes.step}>
      <UnstyledButton className={classes.head ?? ""} aria-expanded={opened} onClick={() => setOpened(!opened)}>
        <IconChevronRight size={15} className={classes.arrow ?? ""} data-opened={opened || undefined} aria-hidden />
        <Group gap={8} wrap="nowrap" className={classes.name ?? ""}>
          <Text size="sm" fw={560} truncate>
            <bdi>{visible(step.stepName || step.stepId)}</bdi>
          </Text>
          {failed && <Badge color="red">{t.stepFailed}</Badge>}
          {slowest && !failed && <Badge color="yellow">{t.slowest}</Badge>}
        </Group>
        <span className={classes.track} aria-hidden>
          <span
            className={classes.bar}
            data-failed={failed || undefined}
            data-slowest={slowest || undefined}
            style={{ insetInlineStart: `${begin * 100}%`, width: `max(3px, ${share * 100}%)` }}
          />
        </span>
        <Text size="sm" c="dimmed" className={classes.took ?? ""}>
          {format.duration(step.duration)}
        </Text>
      </UnstyledButton>
      <Collapse expanded={opened}>
        {opened && (
          <Box className={classes.inside}>
            {failed && <Part title={t.stepError} value={step.error} />}
            <Part title={t.stepInput} value={step.input} />
            <Part title={t.stepOutput} value={step.output} />
          </Box>
        )}
      </Collapse>
    </li>
  );
}

function Part({ title, value }: { title: string; value: unknown }) {
  return (
    <Box>
      <Text size="xs" fw={600} c="dimmed" mb={4}>
        {title}
      </Text>
      <Value value={value} />
    </Box>
  );
}

/** The tests of a skill: each case with what it was given, what was expected and what came of it. */
import { Badge, Box, SimpleGrid, Stack, Text, UnstyledButton } from "@mantine/core";
import { IconChevronRight } from "@tabler/icons-react";
import { useState } from "react";

import type { RunStep } from "@/api/runs";
import type { SkillDetail } from "@/api/skills";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { visible } from "@/parts/foreign";
import { Value } from "@/parts/Value";

import { Checks } from "./Checks";
import classes from "./Tests.module.css";
import { tests } from "./testWords";

export default function Tests({ skill }: { skill: SkillDetail }) {
  return <Checks skill={skill} kind="test" Case={Case} />;
}

interface Came {
  kind: keyof (typeof tests)["en"]["kinds"];
  expected?: unknown;
  got?: unknown;
  log?: string;
}

/** One case; one that failed stands open. */
function Case({ step }: { step: RunStep }) {
  const t = useText(tests);
  const format = useFormat();
  const failed = Boolean(step.error);
  const { kind, expected, got, log } = step.output as Came;
  const has = failed || (step.input !== null && step.input !== undefined) || Boolean(log);
  const [open, setOpen] = useState(failed);
  return (
    <Box role="listitem">
      <UnstyledButton className={classes.case ?? ""} onClick={() => setOpen(!open)} aria-expanded={has ? open : undefined} disabled={!has}>
        <IconChevronRight size={15} className={classes.chevron} data-open={open} style={{ visibility: has ? "visible" : "hidden" }} />
        <Badge color={failed ? "red" : "pine"} className={classes.mark ?? ""}>
          {failed ? t.failed : t.passed}
        </Badge>
        <Text size="sm" fw={560} truncate className={classes.name ?? ""}>
          <bdi>{visible(step.stepName)}</bdi>
        </Text>
        <Text size="xs" c="dimmed" visibleFrom="xs">
          {t.kinds[kind]}
        </Text>
        <Text size="xs" c="dimmed" className={classes.took ?? ""}>
          {step.duration > 0 ? format.duration(step.duration) : ""}
        </Text>
      </UnstyledButton>
      {open && has && (
        <Stack gap="sm" className={classes.detail ?? ""}>
          {failed && (
            <Text size="sm" fw={560}>
              <bdi>{visible(String(step.error))}</bdi>
            </Text>
          )}
          {step.input !== null && step.input !== undefined && (
            <SimpleGrid cols={{ base: 1, sm: 3 }} spacing="md">
              {([["input", step.input], ["expected", expected], ["got", got]] as const).map(([name, value]) => (
                <Box key={name} role="group" aria-label={t[name]} miw={0}>
                  <Text size="xs" c="dimmed" mb={4}>
                    {t[name]}
                  </Text>
                  <Value value={value ?? null} />
                </Box>
              ))}
            </SimpleGrid>
          )}
          {log && (
            <Box>
              <Text size="xs" c="dimmed" mb={4}>
                {t.log}
              </Text>
              <pre className={classes.log}>{visible(log)}</pre>
            </Box>
          )}
        </Stack>
      )}
    </Box>
  );
}

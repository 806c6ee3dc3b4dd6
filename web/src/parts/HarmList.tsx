/** What the scanner found, the gravest first, each with its line, why it matters and how to fix it. */
import { Anchor, Badge, Box, Code, Group, Paper, Stack, Text } from "@mantine/core";
import { IconShieldCheck } from "@tabler/icons-react";
import { useState } from "react";

import type { Harm } from "@/api/skills";
import { useText } from "@/i18n";
import { useMeaning } from "@/i18n/chinese";
import { common } from "@/i18n/common";
import { safety } from "@/pages/skill/safetyWords";

import classes from "./HarmList.module.css";
import { visible } from "./foreign";
import { Original } from "./Original";
import { GRAVITY } from "./ScanBadge";

const SHOWN = 20;
/** What a sentence has that knows more than its rule: a name, a quotation or a number. */
const NAMES = /[`'"\d(]/;

interface Props {
  findings: readonly Harm[];
  /** How many files were read, when that is known. */
  files?: number | undefined;
  /** Show a line of a file. */
  open?: ((file: string, line: number) => void) | undefined;
}

export function HarmList({ findings, files, open }: Props) {
  const t = useText(safety);
  const c = useText(common);
  const meaning = useMeaning("findings");
  const [limit, setLimit] = useState(SHOWN);
  if (findings.length === 0)
    return (
      <Group gap="sm">
        <IconShieldCheck size={22} stroke={1.6} color="var(--mantine-primary-color-filled)" aria-hidden />
        <Text size="sm">
          {t.clean} {files !== undefined && t.cleanWhy(files)}
        </Text>
      </Group>
    );
  return (
    <Stack gap="xs">
      {findings.slice(0, limit).map((found, index) => {
        const meant = meaning(found.rule);
        return (
        <Paper key={index} p="sm" className={classes.found} data-quiet={found.allowed != null}>
          <Group gap="xs" wrap="wrap" align="baseline">
            <Badge color={GRAVITY[found.severity] ?? "gray"}>{t.severity[found.severity] ?? found.severity}</Badge>
            <Text size="sm" fw={560} style={{ overflowWrap: "anywhere" }} flex="1 1 240px">
              {meant?.title ?? visible(found.message)}
            </Text>
            {open ? (
              <Anchor component="button" type="button" size="xs" ff="monospace" title={t.openFile} onClick={() => open(found.file, found.line)}>
                {visible(found.file)}:{found.line}
              </Anchor>
            ) : (
              <Code>
                {visible(found.file)}:{found.line}
              </Code>
            )}
          </Group>
          {found.evidence && (
            <Box component="pre" className={classes.evidence} tabIndex={0}>
              {visible(found.evidence)}
            </Box>
          )}
          {meant && NAMES.test(found.message) && <Original>{[found.message]}</Original>}
          <Text size="xs" c="dimmed">
            {t.why}: {meant?.why ?? found.why}
          </Text>
          <Text size="xs" c="dimmed">
            {t.fix}: {meant?.fix ?? found.fix}
          </Text>
          {found.allowed && (
            <Text size="xs" c="dimmed">
              {t.allowed}: {visible(found.allowed)}
            </Text>
          )}
          {found.claimed && (
            <Text size="xs" c="dimmed">
              {t.claimed}: {visible(found.claimed)}
            </Text>
          )}
        </Paper>
        );
      })}
      {findings.length > limit && (
        <Anchor component="button" type="button" size="sm" onClick={() => setLimit(findings.length)}>
          {c.more} ({findings.length - limit})
        </Anchor>
      )}
    </Stack>
  );
}

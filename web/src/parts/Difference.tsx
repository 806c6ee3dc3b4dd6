/** What is different between two trees of files: each file that is not the same, with its lines. */
import { Badge, Box, Collapse, Group, Stack, Text, UnstyledButton } from "@mantine/core";
import { IconChevronRight } from "@tabler/icons-react";
import { useState } from "react";

import type { TreeDifference } from "@/api/versions";
import { words, useText } from "@/i18n";
import { useFormat } from "@/i18n/format";

import classes from "./Difference.module.css";
import { visible } from "./foreign";

const table = words(
  {
    change: { added: "added", removed: "removed", changed: "changed" },
    same: (count: string) => (count === "0" ? "Every file is different." : count === "1" ? "1 file is the same." : `${count} files are the same.`),
    none: "Not one byte is different.",
  },
  {
    change: { added: "新增", removed: "删除", changed: "修改" },
    same: (count) => (count === "0" ? "所有文件都不同。" : `${count} 个文件相同。`),
    none: "没有任何差异。",
  },
);

const COLORS = { added: "green", removed: "red", changed: "blue" } as const;
const OPEN = 4; // files whose lines are shown at once

export function Difference({ difference }: { difference: TreeDifference }) {
  const t = useText(table);
  const format = useFormat();
  return (
    <Stack gap="xs">
      <Text size="sm" c="dimmed">
        {difference.files.length === 0 ? t.none : t.same(format.number(difference.unchanged))}
      </Text>
      {difference.files.map((file, index) => (
        <FileDifference key={file.path} file={file} open={index < OPEN} />
      ))}
    </Stack>
  );
}

function FileDifference({ file, open }: { file: TreeDifference["files"][number]; open: boolean }) {
  const t = useText(table);
  const format = useFormat();
  const [opened, setOpened] = useState(open && file.lines !== "");
  const sizes = [file.before, file.after].filter((size) => size !== null).map((size) => format.bytes(size));
  return (
    <Box className={classes.file}>
      <UnstyledButton className={classes.head} onClick={() => setOpened(!opened)} aria-expanded={opened} disabled={!file.lines}>
        <IconChevronRight size={14} className={classes.turn} data-open={opened} data-empty={!file.lines} aria-hidden />
        <Text size="sm" ff="monospace" truncate miw={0} flex={1}>
          <bdi>{visible(file.path)}</bdi>
        </Text>
        <Group gap={8} wrap="nowrap">
          <Text size="xs" c="dimmed" visibleFrom="xs">
            {sizes.join(" → ")}
          </Text>
          <Badge size="sm" color={COLORS[file.change]}>
            {t.change[file.change]}
          </Badge>
        </Group>
      </UnstyledButton>
      <Collapse expanded={opened}>
        {file.lines && (
          <pre className={classes.lines} tabIndex={0} aria-label={file.path}>
            {file.lines
              .replace(/\n$/, "")
              .split("\n")
              .slice(2)
              .map((line, index) => (
                <span key={index} className={classes.line} data-kind={line[0] ?? " "}>
                  {visible(line) || " "}
                </span>
              ))}
          </pre>
        )}
      </Collapse>
      {file.unshown && (
        <Text size="xs" c="dimmed" px="sm" py={6}>
          {file.unshown}
        </Text>
      )}
    </Box>
  );
}

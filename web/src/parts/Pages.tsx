/** The pages of a document, one at a time: a picture that the server drew, and the text on it. */
import { ActionIcon, Box, Group, Stack, Text } from "@mantine/core";
import { IconChevronLeft, IconChevronRight } from "@tabler/icons-react";

import type { Preview } from "@/api/previews";
import { useText, words } from "@/i18n";
import { useFormat } from "@/i18n/format";

import classes from "./FilePreview.module.css";
import { visible } from "./foreign";
import { More } from "./More";

const table = words(
  {
    page: (page: string, pages: string) => `Page ${page} of ${pages}`,
    before: "Previous page",
    after: "Next page",
    text: "Text of this page",
    noText: "There is no text on this page.",
  },
  {
    page: (page, pages) => `第 ${page} 页，共 ${pages} 页`,
    before: "上一页",
    after: "下一页",
    text: "本页文字",
    noText: "本页没有文字。",
  },
);

interface Props {
  name: string;
  pages: Extract<Preview, { kind: "pdf" }>;
  /** Go to a page, counted from 0. */
  turn: (page: number) => void;
  /** Another page is on its way. */
  busy: boolean;
}

export function Pages({ name, pages: { page, pages, text, picture }, turn, busy }: Props) {
  const t = useText(table);
  const format = useFormat();
  const where = t.page(format.number(page), format.number(pages));
  const words = <pre className={classes.text}>{visible(text).trim() || t.noText}</pre>;
  return (
    <Stack gap="sm">
      <Group gap="xs" justify="center">
        <ActionIcon aria-label={t.before} disabled={page <= 1 || busy} onClick={() => turn(page - 2)}>
          <IconChevronLeft size={18} />
        </ActionIcon>
        <Text size="sm" role="status">
          {where}
        </Text>
        <ActionIcon aria-label={t.after} disabled={page >= pages || busy} onClick={() => turn(page)}>
          <IconChevronRight size={18} />
        </ActionIcon>
      </Group>
      <Box className={classes.pages} tabIndex={0} role="region" aria-label={visible(name)}>
        {picture ? <img src={picture} alt={where} className={classes.page} data-busy={busy || undefined} /> : words}
      </Box>
      {picture && <More label={t.text}>{words}</More>}
    </Stack>
  );
}

/** A file in a window of its own: text, Markdown, a picture, pages of a document or a table, and a way to take it. */
import { Box, Button, Group, SegmentedControl, Skeleton, Stack, Text } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { lazy, type ReactNode, Suspense, useState } from "react";

import { fetched } from "@/api/parts";
import type { Preview, PreviewQuery } from "@/api/previews";
import { useText, words } from "@/i18n";
import { common } from "@/i18n/common";
import { useFormat } from "@/i18n/format";

import { Dialog } from "./Dialog";
import classes from "./FilePreview.module.css";
import { visible } from "./foreign";
import { Loaded } from "./Loaded";
import { Original } from "./Original";
import { Pages } from "./Pages";
import { Empty } from "./Section";
import { Sheet } from "./Sheet";

const Source = lazy(() => fetched(import("./Source")));
const Markdown = lazy(() => fetched(import("./Markdown")));

const table = words(
  {
    none: "This file cannot be shown here. Download it.",
    how: "How to show it",
    drawn: "Preview",
    source: "Source",
    cut: "This is the beginning. Download the file to see all of it.",
  },
  {
    none: "此文件无法在这里显示，请下载。",
    how: "显示方式",
    drawn: "预览",
    source: "源文本",
    cut: "这里只显示开头部分，请下载文件查看全部内容。",
  },
);

export interface Previewed {
  name: string;
  /** In bytes. */
  size: number;
  /** Where it is downloaded. */
  address: string;
  query: PreviewQuery;
}

interface Props {
  file: Previewed;
  /** What else is known of it. */
  about?: ReactNode;
  /** What else can be done with it. */
  actions?: ReactNode;
  close: () => void;
}

export function FilePreview({ file: { name, size, address, query }, about, actions, close }: Props) {
  const t = useText(table);
  const c = useText(common);
  const format = useFormat();
  const [part, turn] = useState(0);
  const [raw, setRaw] = useState(false);
  const found = useQuery({ ...query(part), placeholderData: keepPreviousData });
  const chosen = raw ? "source" : "drawn";
  return (
    <Dialog opened close={close} size="xl" title={<bdi>{visible(name)}</bdi>} centered={false} styles={{ title: { overflowWrap: "anywhere", minWidth: 0 } }}>
      <Stack gap="sm">
        <Group gap="sm" justify="space-between">
          <Text size="sm" c="dimmed">
            {format.bytes(size)}
            {about && <> · {about}</>}
          </Text>
          <Group gap="xs">
            {found.data?.kind === "markdown" && (
              <SegmentedControl
                size="xs"
                aria-label={t.how}
                value={chosen}
                onChange={(value) => setRaw(value === "source")}
                data={[
                  { value: "drawn", label: t.drawn },
                  { value: "source", label: t.source },
                ]}
              />
            )}
            <Button component="a" href={address} download={name.split("/").pop()} size="compact-sm" variant="default" leftSection={<IconDownload size={14} />}>
              {c.download}
            </Button>
            {actions}
          </Group>
        </Group>
        <Loaded query={found} skeleton={<Skeleton h={240} />}>
          {(preview) => <Shown name={name} preview={preview} raw={raw} turn={turn} busy={found.isPlaceholderData} />}
        </Loaded>
      </Stack>
    </Dialog>
  );
}

interface ShownProps {
  name: string;
  preview: Preview;
  /** Markdown as it was written. */
  raw: boolean;
  turn: (part: number) => void;
  busy: boolean;
}

function Shown({ name, preview, raw, turn, busy }: ShownProps) {
  const t = useText(table);
  switch (preview.kind) {
    case "text":
    case "markdown":
      return (
        <>
          <Suspense fallback={<Skeleton h={240} />}>
            {preview.kind === "markdown" && !raw ? (
              <Box className={classes.drawn} tabIndex={0} role="region" aria-label={visible(name)}>
                <Markdown heading={3}>{preview.text}</Markdown>
              </Box>
            ) : (
              <Box className={classes.source} style={{ "--lines": Math.min(preview.text.split("\n").length, 40) }}>
                <Source text={preview.text} path={name} label={visible(name)} />
              </Box>
            )}
          </Suspense>
          {preview.truncated && <Empty>{t.cut}</Empty>}
        </>
      );
    case "image":
      return <img src={preview.picture} alt={visible(name)} className={classes.picture} />;
    case "pdf":
      return <Pages name={name} pages={preview} turn={turn} busy={busy} />;
    case "table":
      return (
        <>
          <Sheet name={name} table={preview} turn={turn} busy={busy} />
          {preview.truncated && <Empty>{t.cut}</Empty>}
        </>
      );
    case "binary":
      return (
        <>
          <Empty>{t.none}</Empty>
          {preview.reason && <Original>{[preview.reason]}</Original>}
        </>
      );
  }
}

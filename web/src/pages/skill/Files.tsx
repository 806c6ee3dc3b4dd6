/** The files of a skill: a tree, and whichever is chosen, to be read. */
import { Box, Button, Group, Image, SegmentedControl, Skeleton, Text, TextInput } from "@mantine/core";
import { IconDownload, IconFileUnknown, IconSearch } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";

import { fileAddress, fileQuery } from "@/api/files";
import { fetched } from "@/api/parts";
import type { SkillDetail } from "@/api/skills";
import { useText } from "@/i18n";
import { common } from "@/i18n/common";
import { useFormat } from "@/i18n/format";
import { EmptyState } from "@/parts/EmptyState";
import { FileTree } from "@/parts/FileTree";
import { Loaded } from "@/parts/Loaded";
import { Drawn } from "@/parts/Reading";
import { visible } from "@/parts/foreign";

import classes from "./Files.module.css";
import { body } from "./frontMatter";
import { skill as table } from "./words";

const Source = lazy(() => fetched(import("@/parts/Source")));
const route = getRouteApi("/skills/$id");

const PICTURE = /\.(png|jpe?g|gif|webp|avif|bmp|ico)$/i;
const NO_TEXT = /\.(zip|gz|tgz|tar|pdf|docx?|xlsx?|pptx?|ttf|otf|woff2?|eot|mp3|mp4|wav|mov|webm|exe|dll|so|dylib|pyc|whl|jar|class|bin|skill|sqlite|db)$/i;

export default function Files({ skill }: { skill: SkillDetail }) {
  const t = useText(table);
  const { file, line } = route.useSearch();
  const navigate = route.useNavigate();
  const [wanted, setWanted] = useState("");
  const main = skill.path.slice(skill.directory.length + 1) || "SKILL.md";
  const all = [{ name: main, size: 0, type: "markdown" as const }, ...skill.files];
  const fitting = all.filter(({ name }) => name.toLowerCase().includes(wanted.trim().toLowerCase()));
  const open = (path: string) => void navigate({ search: { tab: "files", file: path }, replace: true, resetScroll: false });
  return (
    <Box className={classes.columns}>
      <Box miw={0}>
        {all.length > 8 && (
          <TextInput
            size="xs"
            mb={8}
            leftSection={<IconSearch size={14} />}
            placeholder={t.filterFiles}
            aria-label={t.filterFiles}
            value={wanted}
            onChange={(event) => setWanted(event.currentTarget.value)}
          />
        )}
        {fitting.length > 0 ? (
          <FileTree label={t.tree} files={fitting} chosen={file ?? main} choose={open} expanded={wanted !== ""} />
        ) : (
          <Text size="sm" c="dimmed">
            {t.noFile}
          </Text>
        )}
      </Box>
      <Viewer key={file ?? main} skill={skill.id} path={file ?? main} line={line} open={open} />
    </Box>
  );
}

interface Viewed {
  skill: string;
  path: string;
  line: number | undefined;
  open: (path: string) => void;
}

function Viewer({ skill, path, line, open }: Viewed) {
  const t = useText(table);
  const c = useText(common);
  const markdown = /\.(md|markdown)$/i.test(path);
  const [raw, setRaw] = useState(line !== undefined);
  return (
    <Box className={classes.viewer}>
      <Group justify="space-between" gap="xs" className={classes.bar}>
        <Text size="sm" ff="monospace" truncate flex="1 1 180px" miw={0} title={visible(path)}>
          {visible(path)}
        </Text>
        <Group gap="xs" wrap="nowrap">
          {markdown && (
            <SegmentedControl
              size="xs"
              value={raw ? "source" : "rendered"}
              onChange={(value) => setRaw(value === "source")}
              data={[
                { value: "rendered", label: t.rendered },
                { value: "source", label: t.source },
              ]}
            />
          )}
          <Button component="a" href={fileAddress(skill, path)} download={visible(path.split("/").pop() ?? path)} size="compact-sm" variant="default" leftSection={<IconDownload size={14} />}>
            {c.download}
          </Button>
        </Group>
      </Group>
      {PICTURE.test(path) ? (
        <Box p="md" ta="center">
          <Image src={fileAddress(skill, path)} alt={visible(path)} mah={560} w="auto" maw="100%" mx="auto" fit="contain" />
        </Box>
      ) : NO_TEXT.test(path) ? (
        <NoText />
      ) : (
        <TextFile skill={skill} path={path} line={line} open={open} rendered={markdown && !raw} reveal={() => setRaw(true)} />
      )}
    </Box>
  );
}

function NoText() {
  const t = useText(table);
  return <EmptyState icon={IconFileUnknown} title={t.binary} hint={t.binaryHint} />;
}

function TextFile({ skill, path, line, open, rendered, reveal }: Viewed & { rendered: boolean; reveal: () => void }) {
  const format = useFormat();
  const text = useQuery(fileQuery(skill, path));
  const folder = path.includes("/") ? path.slice(0, path.lastIndexOf("/") + 1) : "";
  const skeleton = <Skeleton h={420} radius={0} />;
  return (
    <Loaded query={text} skeleton={skeleton}>
      {(found) => {
        if (found.slice(0, 8_000).includes("\0")) return <NoText />;
        return (
          <Suspense fallback={skeleton}>
            {rendered ? (
              <Box p="lg">
                <Drawn text={body(found)} picture={(inner) => fileAddress(skill, folder + inner)} open={(inner) => open(folder + inner)} reveal={reveal} />
              </Box>
            ) : (
              <Source text={found} path={path} line={line} label={visible(path)} />
            )}
            <Text size="xs" c="dimmed" px="md" py={6} className={classes.foot}>
              {format.bytes(new TextEncoder().encode(found).length)}
            </Text>
          </Suspense>
        );
      }}
    </Loaded>
  );
}

/** Where a skill comes from: an archive or a folder, dropped or chosen, or an address. */
import { Alert, Button, Divider, Group, Loader, Stack, Text, TextInput } from "@mantine/core";
import { IconFileZip, IconFolder, IconFolderOpen, IconLink } from "@tabler/icons-react";
import { type DragEvent, useRef, useState } from "react";

import type { Origin } from "@/api/installing";
import { useText } from "@/i18n";
import { ErrorState } from "@/parts/ErrorState";

import classes from "./Choose.module.css";
import { chosenFiles, droppedFiles, type FolderFile, type FolderProblem, FolderRefused, zipped } from "./folderZip";
import { install } from "./words";

/** A folder or file of a disk, which is no address: `/…`, `./…`, `~/…`, `C:\\…`, `file:…`. */
const PATH = /^(?:[/\\~.]|[a-z]:[/\\]|file:)/i;

interface Props {
  busy: boolean;
  error: unknown;
  address: string;
  setAddress: (address: string) => void;
  look: (origin: Origin) => void;
}

export function Choose({ busy, error, address, setAddress, look }: Props) {
  const t = useText(install);
  const [packing, setPacking] = useState<{ done: number; all: number }>();
  const [problem, setProblem] = useState<FolderProblem>();
  const [addressed, setAddressed] = useState(false);
  const [path, setPath] = useState(false);
  const begin = (isAddress: boolean) => {
    setProblem(undefined);
    setPath(false);
    setAddressed(isAddress);
  };

  const pack = async (files: FolderFile[]) => {
    begin(false);
    setPacking({ done: 0, all: files.length });
    try {
      look({ archive: await zipped(files, (done) => setPacking({ done, all: files.length })) });
    } catch (refused) {
      if (!(refused instanceof FolderRefused)) throw refused;
      setProblem(refused.problem);
    } finally {
      setPacking(undefined);
    }
  };
  const open = (archive: File) => {
    begin(false);
    look({ archive });
  };
  const failed = !problem && !path && error !== null && !busy && <ErrorState error={error} />;
  const doing = packing ? t.packing(packing.done, packing.all) : busy ? t.looking : undefined;
  return (
    <Stack gap="md">
      <DropZone doing={doing} pack={(files) => void pack(files)} open={open} />
      <div aria-live="assertive">
        {problem && (
          <Alert color="red" variant="light" title={t.problems[problem]}>
            {t.problemsHint}
          </Alert>
        )}
        {!addressed && failed}
      </div>
      <Divider label={t.or} />
      <form
        onSubmit={(event) => {
          event.preventDefault();
          begin(true);
          if (PATH.test(address.trim())) setPath(true);
          else look({ address: address.trim() });
        }}
      >
        <Group align="flex-end" gap="sm">
          <TextInput
            flex="1 1 280px"
            label={t.address}
            description={t.addressHint}
            placeholder="https://"
            inputMode="url"
            autoComplete="url"
            leftSection={<IconLink size={16} />}
            value={address}
            error={path && t.isPath}
            onChange={(event) => {
              setPath(false);
              setAddress(event.currentTarget.value);
            }}
            disabled={doing !== undefined}
            maxLength={2000}
          />
          <Button type="submit" variant="default" disabled={!address.trim() || doing !== undefined}>
            {t.look}
          </Button>
        </Group>
      </form>
      <div aria-live="assertive">{addressed && failed}</div>
    </Stack>
  );
}

interface DropProps {
  doing: string | undefined;
  pack: (files: FolderFile[]) => void;
  open: (archive: File) => void;
}

function DropZone({ doing, pack, open }: DropProps) {
  const t = useText(install);
  const [over, setOver] = useState(0);
  const archives = useRef<HTMLInputElement>(null);
  const folders = useRef<HTMLInputElement>(null);
  const hold = (event: DragEvent, change: number) => {
    event.preventDefault();
    setOver((before) => Math.max(0, before + change));
  };
  const drop = async (event: DragEvent) => {
    event.preventDefault();
    setOver(0);
    if (doing) return;
    const dropped = await droppedFiles(event.dataTransfer);
    if ("archive" in dropped) open(dropped.archive);
    else pack(dropped.files);
  };
  return (
     
    <div
      className={classes.zone}
      data-over={over > 0}
      onDragEnter={(event) => hold(event, 1)}
      onDragLeave={(event) => hold(event, -1)}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => void drop(event)}
    >
      {doing ? (
        <Stack align="center" gap="sm" role="status">
          <Loader size="md" />
          <Text>{doing}</Text>
        </Stack>
      ) : (
        <Stack align="center" gap="xs">
          <IconFolderOpen size={36} stroke={1.3} aria-hidden className={classes.mark} />
          <Text fw={600} ta="center">
            {over > 0 ? t.dropNow : t.drop}
          </Text>
          <Text size="sm" c="dimmed" ta="center" maw={460}>
            {t.dropHint}
          </Text>
          <Group mt="xs" justify="center">
            <Button leftSection={<IconFileZip size={16} />} onClick={() => archives.current?.click()}>
              {t.archive}
            </Button>
            <Button variant="default" leftSection={<IconFolder size={16} />} onClick={() => folders.current?.click()}>
              {t.folder}
            </Button>
          </Group>
        </Stack>
      )}
      <input
        ref={archives}
        type="file"
        hidden
        aria-label={t.archive}
        accept=".zip,.skill,.tar.gz,.tgz,.tar"
        onChange={({ currentTarget }) => {
          const file = currentTarget.files?.[0];
          if (file) open(file);
          currentTarget.value = "";
        }}
      />
      <input
        ref={folders}
        type="file"
        hidden
        aria-label={t.folder}
        multiple
        {...{ webkitdirectory: "" }}
        onChange={({ currentTarget }) => {
          const files = chosenFiles(currentTarget.files ?? []);
          if (files.length > 0) pack(files);
          currentTarget.value = "";
        }}
      />
    </div>
  );
}

/** The files of a workspace: a tree of all that is there, each to look at, to take and to delete; and more to be added. */
import { Box, Button, Checkbox, FileButton, Group, Skeleton, Stack, Text } from "@mantine/core";
import { IconDownload, IconPlus, IconTrash } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { chatFileAddress, deleteFile, putFile } from "@/api/chat";
import { archiveAddress, type WorkspaceEntry, workspaceFilesQuery, workspaceKey, workspacePreviewQuery } from "@/api/workspace";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { Confirm } from "@/parts/Confirm";
import { FilePreview } from "@/parts/FilePreview";
import { FileTree, fileType } from "@/parts/FileTree";
import { visible } from "@/parts/foreign";
import { AnchorLink } from "@/parts/links";
import { Loaded } from "@/parts/Loaded";
import { notifyProblem } from "@/parts/notify";
import { Empty } from "@/parts/Section";

import { workspace } from "./words";

export function Files({ conversation }: { conversation: string }) {
  const t = useText(workspace);
  const format = useFormat();
  const cache = useQueryClient();
  const [hidden, setHidden] = useState(false);
  const [looked, look] = useState("");
  const query = useQuery(workspaceFilesQuery(conversation, hidden));
  // A preview is of one moment of a file, and does not change.
  const again = () => cache.invalidateQueries({ queryKey: ["chat"], predicate: ({ queryKey }) => !queryKey.includes("preview") });
  const giving = useMutation({
    mutationFn: async (given: readonly File[]) => {
      for (const file of given) await putFile(conversation, file.name, file);
    },
    onError: notifyProblem,
    onSettled: again,
  });
  const close = () => look("");
  return (
    <Stack gap="sm">
      <Group gap="xs">
        <FileButton multiple onChange={(given) => given.length > 0 && giving.mutate(given)}>
          {(props) => (
            <Button {...props} size="xs" variant="default" leftSection={<IconPlus size={15} />} loading={giving.isPending}>
              {t.upload}
            </Button>
          )}
        </FileButton>
        {(query.data?.entries.length ?? 0) > 0 && (
          <Button component="a" href={archiveAddress(conversation, hidden)} download size="xs" variant="default" leftSection={<IconDownload size={15} />}>
            {t.takeAll}
          </Button>
        )}
      </Group>
      <Loaded query={query} skeleton={<Skeleton h={120} />}>
        {({ entries, truncated, size }) => {
          const files = entries.filter(({ kind }) => kind === "file");
          const chosen = files.find(({ path }) => path === looked);
          return (
            <>
              {files.length === 0 ? (
                <Empty>{t.empty}</Empty>
              ) : (
                <FileTree label={t.tree} files={files.map(({ path, size }) => ({ name: path, size, type: fileType(path) }))} chosen={looked} choose={look} />
              )}
              {truncated && <Empty>{t.more(format.bytes(size))}</Empty>}
              {chosen && <Looked conversation={conversation} file={chosen} close={close} again={again} />}
            </>
          );
        }}
      </Loaded>
      {(hidden || (query.data?.entries.length ?? 0) > 0 || query.data?.truncated) && <Checkbox size="xs" label={t.hidden} checked={hidden} onChange={({ currentTarget }) => setHidden(currentTarget.checked)} />}
    </Stack>
  );
}

interface LookedProps {
  conversation: string;
  file: WorkspaceEntry;
  close: () => void;
  again: () => Promise<void>;
}

function Looked({ conversation, file, close, again }: LookedProps) {
  const t = useText(workspace);
  const cache = useQueryClient();
  const [asked, setAsked] = useState(false);
  const { path, size } = file;
  const dropping = useMutation({
    mutationFn: async () => {
      await cache.cancelQueries({ queryKey: [...workspaceKey(conversation), "preview", path] });
      return deleteFile({ id: conversation, name: path });
    },
    onError: notifyProblem,
    onSuccess: close,
    onSettled: again,
  });
  return (
    <>
      <FilePreview
        file={{ name: path, size, address: chatFileAddress(conversation, path), query: (part) => workspacePreviewQuery(conversation, file, part) }}
        about={<About file={file} />}
        actions={
          <Button size="compact-sm" variant="default" leftSection={<IconTrash size={14} />} onClick={() => setAsked(true)}>
            {t.remove}
          </Button>
        }
        close={close}
      />
      <Confirm opened={asked} close={() => setAsked(false)} title={t.removeAsk(visible(path))} action={t.remove} danger busy={dropping.isPending} act={() => dropping.mutate()}>
        {t.removeWhy}
      </Confirm>
    </>
  );
}

/** Who wrote a file, and when. */
function About({ file: { origin, modified } }: { file: WorkspaceEntry }) {
  const t = useText(workspace);
  const format = useFormat();
  return (
    <Box component="span">
      {t.changed(format.ago(modified))}
      {origin?.startsWith("run_") && (
        <>
          {" · "}
          <AnchorLink to="/runs/$id" params={{ id: origin }} size="sm" c="dimmed" td="underline">
            {t.fromRun}
          </AnchorLink>
        </>
      )}
      {(origin === "user" || origin?.startsWith("turn_")) && (
        <Text span inherit>
          {" · "}
          {origin === "user" ? t.fromYou : t.fromTurn}
        </Text>
      )}
    </Box>
  );
}

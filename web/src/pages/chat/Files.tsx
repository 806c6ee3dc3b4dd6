/** The work folder of a conversation: what was given and what scripts wrote, to look at, to take and to delete. */
import { ActionIcon, Anchor, Box, Button, FileButton, Text } from "@mantine/core";
import { IconDownload, IconPlus, IconTrash } from "@tabler/icons-react";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { type ChatFile, chatFileAddress, chatFileQuery, type ConversationDetail, deleteFile, putFile } from "@/api/chat";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { FilePreview } from "@/parts/FilePreview";
import { visible } from "@/parts/foreign";
import { AnchorLink } from "@/parts/links";
import { notifyProblem } from "@/parts/notify";
import { Empty } from "@/parts/Section";

import classes from "./Panel.module.css";
import { chat } from "./words";

export function Files({ conversation: { id, files } }: { conversation: ConversationDetail }) {
  const t = useText(chat);
  const cache = useQueryClient();
  const [looked, look] = useState<ChatFile>();
  const again = () => cache.invalidateQueries({ queryKey: ["chat", "one", id] });
  const giving = useMutation({
    mutationFn: async (given: readonly File[]) => {
      for (const file of given) await putFile(id, file.name, file);
    },
    onError: notifyProblem,
    onSettled: again,
  });
  const dropping = useMutation({ mutationFn: deleteFile, onError: notifyProblem, onSettled: again });
  return (
    <Box>
      {files.length === 0 && <Empty>{t.noFiles}</Empty>}
      <Box component="ul" p={0} m={0} style={{ listStyle: "none" }}>
        {files.map((file) => (
          <li key={file.name} className={classes.file}>
            <div className={classes.name}>
              <Anchor component="button" type="button" size="sm" ta="start" style={{ overflowWrap: "anywhere" }} onClick={() => look(file)}>
                <bdi>{visible(file.name)}</bdi>
              </Anchor>
              <About file={file} />
            </div>
            <ActionIcon component="a" href={chatFileAddress(id, file.name)} download={file.name.split("/").pop()} aria-label={t.get(visible(file.name))}>
              <IconDownload size={16} stroke={1.6} />
            </ActionIcon>
            <ActionIcon aria-label={t.forget(visible(file.name))} disabled={dropping.isPending} onClick={() => dropping.mutate({ id, name: file.name })}>
              <IconTrash size={16} stroke={1.6} />
            </ActionIcon>
          </li>
        ))}
      </Box>
      <FileButton multiple onChange={(given) => given.length > 0 && giving.mutate(given)}>
        {(props) => (
          <Button {...props} mt="sm" size="xs" variant="default" leftSection={<IconPlus size={15} />} loading={giving.isPending}>
            {t.upload}
          </Button>
        )}
      </FileButton>
      {looked && <FilePreview file={{ ...looked, address: chatFileAddress(id, looked.name), query: () => chatFileQuery(id, looked) }} close={() => look(undefined)} />}
    </Box>
  );
}

function About({ file: { size, origin } }: { file: ChatFile }) {
  const t = useText(chat);
  const format = useFormat();
  return (
    <Text size="xs" c="dimmed">
      {format.bytes(size)} ·{" "}
      {origin === "user" ? (
        t.fromYou
      ) : (
        <AnchorLink to="/runs/$id" params={{ id: origin }} size="xs" c="dimmed" td="underline">
          {t.fromRun}
        </AnchorLink>
      )}
    </Text>
  );
}

/** The files that a run made: to look at and to take away. */
import { ActionIcon, Anchor, Skeleton, Text } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { type MadeFile, madeFileAddress, madeFileQuery, madeFilesQuery, type RunDetail } from "@/api/runs";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { Dialog } from "@/parts/Dialog";
import { FilePreview } from "@/parts/FilePreview";
import { visible } from "@/parts/foreign";
import { Loaded } from "@/parts/Loaded";
import { Section } from "@/parts/Section";

import { runs } from "../runs/words";
import classes from "./MadeFiles.module.css";

export function MadeFiles({ run: { run_id, files } }: { run: RunDetail }) {
  const t = useText(runs);
  const format = useFormat();
  const query = useQuery({ ...madeFilesQuery(run_id), enabled: files.length > 0 });
  const [looked, look] = useState<MadeFile>();
  if (files.length === 0) return null;
  const kept = new Map((query.data ?? []).map((file) => [file.name, file]));
  return (
    <Section title={t.made}>
      <ul className={classes.list}>
        {files.map((name) => {
          const file = kept.get(name);
          return (
            <li key={name} className={classes.file}>
              <div className={classes.name}>
                {file ? (
                  <Anchor component="button" type="button" size="sm" ta="start" onClick={() => look(file)}>
                    <bdi>{visible(name)}</bdi>
                  </Anchor>
                ) : (
                  <Text size="sm">
                    <bdi>{visible(name)}</bdi>
                  </Text>
                )}
                <Text size="xs" c="dimmed">
                  {file ? format.bytes(file.size) : query.isSuccess ? t.notKept : "…"}
                </Text>
              </div>
              {file && (
                <ActionIcon component="a" href={madeFileAddress(run_id, name)} download={name.split("/").pop()} aria-label={t.take(visible(name))}>
                  <IconDownload size={16} stroke={1.6} />
                </ActionIcon>
              )}
            </li>
          );
        })}
      </ul>
      {looked && <Preview run={run_id} file={looked} close={() => look(undefined)} />}
    </Section>
  );
}

function Preview({ run, file, close }: { run: string; file: MadeFile; close: () => void }) {
  const query = useQuery(madeFileQuery(run, file));
  return (
    <Dialog opened close={close} size="xl" title={<bdi>{visible(file.name)}</bdi>} centered={false}>
      <Loaded query={query} skeleton={<Skeleton h={240} />}>
        {({ isText, data }) => <FilePreview name={file.name} isText={isText} data={data} />}
      </Loaded>
    </Dialog>
  );
}

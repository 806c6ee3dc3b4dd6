/** The files that a run made: to look at and to take away. */
import { ActionIcon, Anchor, Button, Text } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { downloadAll } from "@/api/archive";
import { type MadeFile, madeFileAddress, madeFileQuery, madeFilesQuery, type RunDetail } from "@/api/runs";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { FilePreview } from "@/parts/FilePreview";
import { visible } from "@/parts/foreign";
import { notifyProblem } from "@/parts/notify";
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
    <Section title={t.made} actions={kept.size > 1 && <All run={run_id} files={[...kept.keys()]} />}>
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
      {looked && <FilePreview file={{ ...looked, address: madeFileAddress(run_id, looked.name), query: (part) => madeFileQuery(run_id, looked, part) }} close={() => look(undefined)} />}
    </Section>
  );
}

function All({ run, files }: { run: string; files: readonly string[] }) {
  const t = useText(runs);
  const taking = useMutation({
    mutationFn: () => downloadAll(`${run}.zip`, files.map((name) => ({ name, address: madeFileAddress(run, name) }))),
    onError: notifyProblem,
  });
  return (
    <Button size="compact-sm" variant="default" leftSection={<IconDownload size={14} />} loading={taking.isPending} onClick={() => taking.mutate()}>
      {t.takeAll}
    </Button>
  );
}

/** What a run printed, as plain text; while it goes on the end stays in sight. */
import { Group, ScrollArea, SegmentedControl, Text } from "@mantine/core";
import { useEffect, useRef, useState } from "react";

import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { CopyIcon } from "@/parts/CopyIcon";
import { plain, visible } from "@/parts/foreign";
import { Section } from "@/parts/Section";

import { runs } from "../runs/words";
import classes from "./Logs.module.css";

type Stream = "stdout" | "stderr";

export function Logs({ stdout, stderr, live }: { stdout: string; stderr: string; live: boolean }) {
  const t = useText(runs);
  const [chosen, setChosen] = useState<Stream>();
  const stream = chosen ?? (stdout.trim() || !stderr.trim() ? "stdout" : "stderr");
  const text = visible(stream === "stdout" ? stdout : stderr);
  const any = Boolean(stdout || stderr);
  return (
    <Section
      title={t.logs}
      empty={!any && t.noLogs}
      actions={
        <Group gap="xs">
          <SegmentedControl
            size="xs"
            value={stream}
            onChange={(value) => setChosen(value)}
            data={[
              { value: "stdout", label: <Label name={t.stdout} text={stdout} /> },
              { value: "stderr", label: <Label name={t.stderr} text={stderr} /> },
            ]}
          />
          <CopyIcon value={plain(stream === "stdout" ? stdout : stderr)} />
        </Group>
      }
    >
      <Lines text={text || t.noLogs} live={live} label={stream === "stdout" ? t.stdout : t.stderr} />
    </Section>
  );
}

function Label({ name, text }: { name: string; text: string }) {
  const format = useFormat();
  const lines = text ? text.trimEnd().split("\n").length : 0;
  return (
    <>
      {name}{" "}
      <Text component="span" size="xs" inherit>
        {format.number(lines)}
      </Text>
    </>
  );
}

function Lines({ text, live, label }: { text: string; live: boolean; label: string }) {
  const box = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  useEffect(() => {
    if (live && atEnd.current) box.current?.scrollTo({ top: box.current.scrollHeight });
  }, [text, live]);
  return (
    <ScrollArea.Autosize
      mah={380}
      type="auto"
      viewportRef={box}
      viewportProps={{ tabIndex: 0, role: "log", "aria-label": label, "aria-live": "off" }}
      onScrollPositionChange={({ y }) => {
        const { scrollHeight = 0, clientHeight = 0 } = box.current ?? {};
        atEnd.current = y + clientHeight >= scrollHeight - 8;
      }}
    >
      <pre className={classes.lines}>{text}</pre>
    </ScrollArea.Autosize>
  );
}

/** What a call of a workspace tool did, to be read: the command with its output, a program, what was written or changed. */
import { Badge, Box, Code, Group, Text } from "@mantine/core";
import { lazy, type ReactNode, Suspense, useEffect, useRef } from "react";

import { fetched } from "@/api/parts";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { visible } from "@/parts/foreign";

import calls from "../Calls.module.css";
import type { Call } from "../story";
import classes from "./CallDetails.module.css";
import { editLines, flagOf, textOf, unfenced, type WorkspaceTool } from "./commands";
import { CutText } from "./CutText";
import { workspace } from "./words";

const Coloured = lazy(() => fetched(import("@/parts/Coloured")));
const LONGEST = 6_000; // characters that are drawn at first
const COLOURED = 20_000; // characters; longer programs stay plain

interface Props {
  call: Call;
  tool: WorkspaceTool;
  /** It goes on. */
  running: boolean;
}

export function CallDetails({ call, tool, running }: Props) {
  const t = useText(workspace);
  const printed = tool === "bash" || tool === "code_run";
  return (
    <>
      <Given call={call} tool={tool} />
      {call.result ? <Output call={call} label={printed ? t.parts.output : t.parts.gave} /> : running && <Live text={call.log} />}
      <Outcome call={call} />
    </>
  );
}

function Given({ call, tool }: { call: Call; tool: WorkspaceTool }) {
  const t = useText(workspace);
  switch (tool) {
    case "bash": {
      const command = textOf(call, "command");
      const process = textOf(call, "process");
      const asked = flagOf(call, "stop") ? t.process.stop(visible(process)) : t.process.read(visible(process));
      return (
        <Part title={t.parts.command}>
          {command ? <Program text={command} language="bash" note={flagOf(call, "background") ? t.background : undefined} /> : <Text size="sm">{asked}</Text>}
        </Part>
      );
    }
    case "code_run":
      return (
        <Part title={`${t.parts.code} · ${visible(textOf(call, "language")) || "python"}`}>
          <Program text={textOf(call, "code")} language={textOf(call, "language") || "python"} />
        </Part>
      );
    case "file_write":
      return (
        <Part title={`${t.parts.content} · ${pathOf(call)}`}>
          <Program text={textOf(call, "content")} language={endOf(pathOf(call))} />
        </Part>
      );
    case "file_edit":
      return (
        <Part title={`${t.parts.change} · ${pathOf(call)}`}>
          <Edit before={textOf(call, "old_string")} after={textOf(call, "new_string")} />
        </Part>
      );
    default:
      return <Words call={call} />;
  }
}

const pathOf = (call: Call): string => visible(textOf(call, "file_path") || textOf(call, "path"));
const endOf = (path: string): string => path.split(".").pop()?.toLowerCase() ?? "";

/** What else was asked for, as names and values. */
function Words({ call: { arguments: given } }: { call: Call }) {
  const known = typeof given === "object" && given !== null ? Object.entries(given as Record<string, unknown>) : [];
  return (
    <Group gap={6}>
      {known.map(([name, value]) => (
        <Code key={name} className={classes.word ?? ""}>
          {visible(`${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`).slice(0, 400)}
        </Code>
      ))}
    </Group>
  );
}

function Program({ text, language, note }: { text: string; language: string; note?: string | undefined }) {
  const plain = <CutText text={text} most={LONGEST} />;
  const short = text.length <= Math.min(LONGEST, COLOURED);
  return (
    <pre className={calls.lines} tabIndex={0}>
      {short ? (
        <Suspense fallback={plain}>
          <Coloured text={visible(text)} language={language} />
        </Suspense>
      ) : (
        plain
      )}
      {note && <span className={classes.note}> # {note}</span>}
    </pre>
  );
}

function Edit({ before, after }: { before: string; after: string }) {
  return (
    <pre className={calls.lines} tabIndex={0}>
      {editLines(before, after).map(({ kind, text }, index) => (
        <span key={index} className={classes.line} data-kind={kind}>
          {kind} {visible(text)}
        </span>
      ))}
    </pre>
  );
}

function Output({ call: { result }, label }: { call: Call; label: string }) {
  const t = useText(workspace);
  const text = unfenced(result?.text ?? "");
  return (
    <Part title={label}>
      {text.trim() ? (
        <pre className={calls.lines} tabIndex={0} role="region" aria-label={label}>
          <CutText text={text} most={LONGEST} />
        </pre>
      ) : (
        <Text size="sm" c="dimmed">
          {t.noOutput}
        </Text>
      )}
    </Part>
  );
}

/** What is written while it runs; the end stays in sight. */
function Live({ text }: { text: string }) {
  const t = useText(workspace);
  const box = useRef<HTMLPreElement>(null);
  useEffect(() => {
    box.current?.scrollTo({ top: box.current.scrollHeight });
  }, [text]);
  if (!text) return null;
  return (
    <Part title={t.parts.output}>
      <pre ref={box} className={calls.lines} tabIndex={0} role="log" aria-live="off" aria-label={t.parts.output}>
        {visible(text)}
      </pre>
    </Part>
  );
}

/** The exit code when it is none of success, and which rule decided. */
function Outcome({ call: { result } }: { call: Call }) {
  const t = useText(workspace);
  const format = useFormat();
  if (!result?.rule && !result?.exit_code) return null;
  return (
    <Group gap="sm">
      {Boolean(result.exit_code) && (
        <Badge size="sm" color="red" tt="none">
          {t.exitCode(format.number(result.exit_code ?? 0))}
        </Badge>
      )}
      {result.rule && (
        <Text size="xs" c="dimmed" style={{ overflowWrap: "anywhere" }}>
          {t.parts.rule}: <bdi>{visible(result.rule)}</bdi>
        </Text>
      )}
    </Group>
  );
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <Box miw={0}>
      <Text size="xs" fw={600} c="dimmed" mb={4} style={{ overflowWrap: "anywhere" }}>
        {title}
      </Text>
      {children}
    </Box>
  );
}

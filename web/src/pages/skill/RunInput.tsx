/** What a run is given: which script it is, its parameters, its command line, files; and what few need, folded away. */
import { ActionIcon, Box, Button, FileButton, Group, JsonInput, Select, Stack, Text, Textarea } from "@mantine/core";
import { IconPaperclip, IconX } from "@tabler/icons-react";
import { useState } from "react";

import type { RunGiven } from "@/api/runs";
import type { SkillDetail } from "@/api/skills";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { Dropping } from "@/parts/Dropping";
import { visible } from "@/parts/foreign";
import { useWritten } from "@/parts/kept";
import { More } from "@/parts/More";

import { FormOrJson, Parameters, readObject, useParameters, type Writing } from "./Parameters";
import classes from "./RunInput.module.css";
import { argumentsOf, scriptsOf } from "./runScripts";
import { running } from "./runWords";

interface Written {
  entry: string | undefined;
  /** One argument a line. */
  line: string;
  /** One package or program a line. */
  packages: string;
  /** An object as JSON, or nothing. */
  context: string;
  files: readonly File[];
}

const NOTHING = { entry: "", line: "", packages: "", context: "" };
const given = new Map<string, readonly File[]>(); // by skill: no storage of a browser holds files, so they end with the page

export interface RunWriting {
  skill: SkillDetail;
  parameters: Writing;
  written: Written;
  write: (change: Partial<Written>) => void;
  /** It was tried, so what is wrong is shown. */
  tried: boolean;
  /** What is given when it can be meant; else what is wrong is shown from now on. */
  take: () => RunGiven | undefined;
}

/** The state of a form for a run of this skill: what was written for it at this `place` before, for a run or a schedule, is there again. */
export function useRunInput(skill: SkillDetail, place: string = skill.id): RunWriting {
  const parameters = useParameters(skill.input_schema, `parameters:${place}`);
  const [{ entry, ...lines }, setLines] = useWritten(`run:${place}`, () => NOTHING);
  const [files, setFiles] = useState(() => given.get(place) ?? []);
  const written: Written = { ...lines, entry: entry || undefined, files };
  const [tried, setTried] = useState(false);
  return {
    skill,
    parameters,
    written,
    write: ({ files: added, ...change }) => {
      if (added) {
        given.set(place, added);
        setFiles(added);
      }
      setLines({ ...change, entry: "entry" in change ? (change.entry ?? "") : entry });
    },
    tried,
    take: () => {
      setTried(true);
      const values = parameters.take();
      const context = readObject(written.context);
      if (!values || !context || needsScript(skill, written)) return undefined;
      const { entry, line, packages } = written;
      return { parameters: values, context, entry, arguments: argumentsOf(line), packages: argumentsOf(packages).map((one) => one.trim()), files };
    },
  };
}

const needsScript = (skill: SkillDetail, { entry }: Written): boolean => !skill.run.entry && !entry && scriptsOf(skill).length > 0;

export function RunInput({ writing, context = true }: { writing: RunWriting; context?: boolean }) {
  const t = useText(running);
  const { skill, parameters, written, write, tried } = writing;
  // A script with `execute` is given parameters, any other a command line: the one stands open, the other is folded away.
  const asFunction = skill.has_entry && (!written.entry || written.entry === skill.run.entry);
  const commandLine = <CommandLine written={written} write={write} />;
  return (
    <Stack gap="md">
      <Script writing={writing} />
      {(asFunction || parameters.fields) && <ParameterSection writing={parameters} />}
      {!asFunction && commandLine}
      <GivenFiles files={written.files} give={(files) => write({ files })} />
      <More label={t.more}>
        {asFunction && commandLine}
        {!asFunction && !parameters.fields && <ParameterSection writing={parameters} />}
        <Lines
          label={t.packages}
          description={t.packagesLead}
          placeholder={t.example(proposed(skill) || "pypdf")}
          value={written.packages}
          change={(packages) => write({ packages })}
        />
        {context && (
          <JsonInput
            label={t.context}
            description={t.contextLead}
            value={written.context}
            onChange={(context) => write({ context })}
            placeholder={t.example('{"locale": "en-GB"}')}
            error={tried && !readObject(written.context) ? t.troubles.json : undefined}
            autosize
            minRows={2}
            maxRows={10}
            styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)" } }}
          />
        )}
      </More>
    </Stack>
  );
}

/** One thing that the skill would like to have and was not granted. */
const proposed = ({ environment: { proposed } }: SkillDetail): string =>
  visible([...proposed.packages, ...proposed.npm.map((name) => `npm:${name}`)][0] ?? "");

function Script({ writing: { skill, written, write, tried } }: { writing: RunWriting }) {
  const t = useText(running);
  const scripts = scriptsOf(skill);
  const own = skill.run.entry ?? undefined;
  if (scripts.length === 0 || (own && scripts.length === 1)) return null;
  return (
    <Select
      label={t.script}
      description={own ? undefined : t.chooseScript}
      data={scripts.map((name) => ({ value: name, label: name === own ? t.ownScript(visible(name)) : visible(name) }))}
      value={written.entry ?? own ?? null}
      placeholder={t.noScript}
      error={tried && needsScript(skill, written) ? t.noScript : undefined}
      withAsterisk={!own}
      onChange={(entry) => write({ entry: entry ?? undefined })}
      allowDeselect={false}
      searchable={scripts.length > 8}
      nothingFoundMessage={t.noSuchScript}
    />
  );
}

function ParameterSection({ writing }: { writing: Writing }) {
  const t = useText(running);
  return (
    <Box component="section" aria-label={t.parameters}>
      <Group justify="space-between" mb={6} mih={30}>
        <Text size="sm" fw={600}>
          {t.parameters}
        </Text>
        <FormOrJson writing={writing} />
      </Group>
      <Parameters writing={writing} />
    </Box>
  );
}

function CommandLine({ written, write }: Pick<RunWriting, "written" | "write">) {
  const t = useText(running);
  const first = written.files[0]?.name;
  return (
    <Lines
      label={t.commandLine}
      description={t.commandLineLead}
      placeholder={t.example(first ? visible(first) : "input.csv")}
      value={written.line}
      change={(line) => write({ line })}
    />
  );
}

interface LinesProps {
  label: string;
  description: string;
  placeholder: string;
  value: string;
  change: (value: string) => void;
}

function Lines({ label, description, placeholder, value, change }: LinesProps) {
  return (
    <Textarea
      label={label}
      description={description}
      placeholder={placeholder}
      value={value}
      onChange={(event) => change(event.currentTarget.value)}
      autosize
      minRows={2}
      maxRows={8}
      spellCheck={false}
      styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)" } }}
    />
  );
}

function GivenFiles({ files, give }: { files: readonly File[]; give: (files: readonly File[]) => void }) {
  const t = useText(running);
  const format = useFormat();
  const take = (added: readonly File[]) => {
    const names = new Set(added.map((file) => file.name));
    give([...files.filter((file) => !names.has(file.name)), ...added]);
  };
  return (
    <Dropping take={take} disabled={false} className={classes.drop ?? ""}>
      <Group gap="sm" justify="space-between">
        <Text size="sm" c="dimmed">
          {t.dropFiles}
        </Text>
        <FileButton multiple onChange={take}>
          {(props) => (
            <Button {...props} size="xs" variant="default" leftSection={<IconPaperclip size={15} />}>
              {t.addFiles}
            </Button>
          )}
        </FileButton>
      </Group>
      {files.map((file) => (
        <div key={file.name} className={classes.file}>
          <Text size="sm" className={classes.name}>
            <bdi>{visible(file.name)}</bdi>
          </Text>
          <Text size="xs" c="dimmed">
            {format.bytes(file.size)}
          </Text>
          <ActionIcon aria-label={t.removeFile(visible(file.name))} onClick={() => give(files.filter((other) => other !== file))}>
            <IconX size={15} stroke={1.6} />
          </ActionIcon>
        </div>
      ))}
    </Dropping>
  );
}

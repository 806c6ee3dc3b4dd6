/** What a script is given beside its parameters: which one it is, its command line, files. */
import { ActionIcon, Button, FileButton, Group, Select, Stack, Text, Textarea } from "@mantine/core";
import { IconPaperclip, IconX } from "@tabler/icons-react";

import type { SkillDetail } from "@/api/skills";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { visible } from "@/parts/foreign";

import { Dropping } from "../chat/Dropping";
import classes from "./RunInput.module.css";
import { running } from "./runWords";

export interface Given {
  entry: string | undefined;
  /** One argument a line. */
  line: string;
  files: readonly File[];
}

export const NOTHING_GIVEN: Given = { entry: undefined, line: "", files: [] };

const RUNS = /\.(?:py|sh|bash|js|mjs|cjs|ts|mts)$/;

/** The scripts of a skill that can be chosen, its own entry first. */
export function scriptsOf(skill: SkillDetail): readonly string[] {
  const names = skill.files.map((file) => file.name).filter((name) => RUNS.test(name) && !name.endsWith("__init__.py") && !name.startsWith("tests/"));
  const own = skill.run.entry;
  return own ? [own, ...names.filter((name) => name !== own)] : names;
}

interface Props {
  skill: SkillDetail;
  given: Given;
  give: (given: Given) => void;
}

export function RunInput({ skill, given, give }: Props) {
  const t = useText(running);
  const format = useFormat();
  const scripts = scriptsOf(skill);
  const own = skill.run.entry ?? undefined;
  const take = (files: readonly File[]) => {
    const names = new Set(files.map((file) => file.name));
    give({ ...given, files: [...given.files.filter((file) => !names.has(file.name)), ...files] });
  };
  return (
    <Stack gap="md">
      {(scripts.length > 1 || !own) && scripts.length > 0 && (
        <Select
          label={t.script}
          description={own ? undefined : t.chooseScript}
          data={scripts.map((name) => ({ value: name, label: name === own ? t.ownScript(visible(name)) : visible(name) }))}
          value={given.entry ?? own ?? null}
          placeholder={t.choose}
          onChange={(entry) => give({ ...given, entry: entry ?? undefined })}
          allowDeselect={false}
          searchable={scripts.length > 8}
        />
      )}
      <Textarea
        label={t.commandLine}
        description={t.commandLineLead}
        placeholder={"input.csv\n--verbose"}
        value={given.line}
        onChange={(event) => give({ ...given, line: event.currentTarget.value })}
        autosize
        minRows={1}
        maxRows={8}
        styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)" } }}
      />
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
        {given.files.map((file) => (
          <div key={file.name} className={classes.file}>
            <Text size="sm" className={classes.name}>
              <bdi>{visible(file.name)}</bdi>
            </Text>
            <Text size="xs" c="dimmed">
              {format.bytes(file.size)}
            </Text>
            <ActionIcon
              aria-label={t.removeFile(visible(file.name))}
              onClick={() => give({ ...given, files: given.files.filter((other) => other !== file) })}
            >
              <IconX size={15} stroke={1.6} />
            </ActionIcon>
          </div>
        ))}
      </Dropping>
    </Stack>
  );
}

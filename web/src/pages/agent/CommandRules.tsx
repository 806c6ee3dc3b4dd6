/** The rules of an agent about commands and files: three lists, the default for the rest, and a line to try a call with them. */
import { Badge, Box, Code, Group, NativeSelect, Stack, Text, Textarea, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { type AgentBody, type CommandRuling, ruleCheckQuery, type ToolName } from "@/api/agents";
import { useText } from "@/i18n";
import { useDebouncedData } from "@/parts/debounced";
import { ErrorState } from "@/parts/ErrorState";
import { visible } from "@/parts/foreign";
import { ruleWords } from "@/parts/ruleWords";
import { sentence } from "@/parts/sentence";

import { agents as table } from "../agents/words";
import classes from "./AgentPage.module.css";
import { lineOf, LISTS, ruleFaults, rulesOf } from "./ruleLists";

type Settings = NonNullable<AgentBody["settings"]>;
type Rules = NonNullable<Settings["commands"]>;

const TOOLS: readonly ToolName[] = ["bash", "code_run", "file_read", "file_write", "file_edit", "file_list", "file_search"];
const COLOURS = { allow: "green", ask: "yellow", deny: "red" } as const;
const EXAMPLES = { allow: "Bash(git:*)\nRead(src/**)", ask: "Bash(git commit:*)", deny: "Bash(git push:*)\nRead(.env)" } as const;

interface Props {
  settings: Settings;
  change: (settings: Settings) => void;
  /** Why the agent could not be saved. */
  error: unknown;
}

export function CommandRules({ settings, change, error }: Props) {
  const t = useText(table);
  const w = useText(ruleWords);
  const rules = settings.commands ?? {};
  const [texts, setTexts] = useState(() => ({ allow: linesOf(rules.allow), ask: linesOf(rules.ask), deny: linesOf(rules.deny) }));
  const [tool, setTool] = useState<ToolName>("bash");
  const [argument, setArgument] = useState("");
  const written = useDebouncedData({ rules, tool, argument: argument.trim(), switches: settings.tool_permissions ?? {} }, 300);
  const empty = LISTS.every((list) => !rules[list]?.length) && !rules.default;
  const checking = useQuery({ ...ruleCheckQuery(written), enabled: !empty || written.argument !== "" });
  const faults = { ...ruleFaults(error, rules), ...ruleFaults(checking.error, written.rules) };
  const fault = (list: (typeof LISTS)[number]) => {
    const found = faults[list];
    if (!found) return undefined;
    const { message, rule } = found;
    const said = visible(rule === undefined || message.includes(rule) ? sentence(message) : `${rule}: ${message}`);
    const line = rule === undefined ? undefined : lineOf(texts[list], rule);
    return line === undefined ? said : t.rules.line(line, said);
  };
  const set = (part: Partial<Rules>) => {
    const next = Object.fromEntries(Object.entries({ ...rules, ...part }).filter(([, value]) => (Array.isArray(value) ? value.length > 0 : value))) as Rules;
    change({ ...settings, commands: Object.keys(next).length > 0 ? next : null });
  };
  return (
    <Stack gap="md" role="group" aria-label={t.rules.title}>
      <Box>
        <Text size="xs" fw={600} c="dimmed">
          {t.rules.title}
        </Text>
        <Text size="xs" c="dimmed">
          {t.rules.why}
        </Text>
      </Box>
      {LISTS.map((list) => (
        <Textarea
          key={list}
          label={t.rules.lists[list]}
          description={t.rules.hints[list]}
          placeholder={EXAMPLES[list]}
          value={texts[list]}
          error={fault(list)}
          autosize
          minRows={2}
          maxRows={12}
          spellCheck={false}
          classNames={{ input: classes.rules ?? "", error: classes.fault ?? "" }}
          onChange={({ currentTarget: { value } }) => {
            setTexts((before) => ({ ...before, [list]: value }));
            set({ [list]: rulesOf(value) });
          }}
        />
      ))}
      <NativeSelect
        label={t.rules.rest}
        description={t.rules.restHint}
        value={rules.default ?? ""}
        data={[{ value: "", label: t.rules.usual }, ...LISTS.map((value) => ({ value, label: w.choices[value] }))]}
        onChange={({ currentTarget: { value } }) => set({ default: (value || null) as Rules["default"] })}
      />
      <Box role="group" aria-label={t.rules.attempt}>
        <Text size="sm" fw={500} mb={4}>
          {t.rules.attempt}
        </Text>
        <Group gap="xs" align="flex-start">
          <NativeSelect aria-label={t.rules.tool} data={[...TOOLS]} value={tool} w={130} onChange={({ currentTarget }) => setTool(currentTarget.value as ToolName)} />
          <TextInput
            flex="1 1 220px"
            aria-label={t.rules.call}
            placeholder={tool.startsWith("file") ? "src/main.py" : "git log"}
            value={argument}
            maxLength={20_000}
            spellCheck={false}
            onChange={({ currentTarget }) => setArgument(currentTarget.value)}
          />
        </Group>
        {argument.trim() && (
          <Box mt="xs" role="status">
            {checking.data && <Ruling ruling={checking.data} />}
            {checking.error &&
              (Object.keys(faults).length === 0 ? (
                <ErrorState error={checking.error} />
              ) : (
                <Text size="sm" c="dimmed">
                  {t.rules.fixFirst}
                </Text>
              ))}
          </Box>
        )}
      </Box>
    </Stack>
  );
}

const linesOf = (rules: readonly string[] | null | undefined): string => (rules ?? []).join("\n");

function Ruling({ ruling: { permission, level, rule, reason, part, argument } }: { ruling: CommandRuling }) {
  const t = useText(table);
  const w = useText(ruleWords);
  return (
    <Stack gap={4}>
      <Group gap={8}>
        <Badge color={COLOURS[permission]}>{w.says[permission]}</Badge>
        <Text size="sm">{level ? w.by(w.levels[level] ?? level) : t.rules.none}</Text>
        {rule && <Code className={classes.word ?? ""}>{visible(rule)}</Code>}
      </Group>
      {level && (
        <Text size="xs" c="dimmed" className={classes.word ?? ""}>
          {part && part !== argument && `${visible(part)}: `}
          <bdi>{visible(reason)}</bdi>
        </Text>
      )}
    </Stack>
  );
}

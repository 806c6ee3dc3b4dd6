/** The exact system prompt of the agent, and what each skill costs. */
import { Badge, Group, ScrollArea, Skeleton, Stack, Table, Tabs, Text, TextInput, Tooltip } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { type AgentBody, type AgentPrompt, type AgentShare, promptPart, promptQuery } from "@/api/agents";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { CopyIcon } from "@/parts/CopyIcon";
import { useDebouncedData } from "@/parts/debounced";
import { visible } from "@/parts/foreign";
import { Loaded } from "@/parts/Loaded";
import { Section } from "@/parts/Section";

import { agents as table } from "../agents/words";
import classes from "./AgentPage.module.css";

const COLOURS: Record<AgentShare["shown"], string> = { whole: "pine", shortened: "yellow", omitted: "gray", missing: "red" };

export function ExactPrompt({ draft }: { draft: AgentBody }) {
  const t = useText(table);
  const [asked, setAsked] = useState("");
  // A name is asked of every agent that is kept, not of one that is being written.
  const written = useDebouncedData({ draft: { ...draft, name: draft.name.trim() || "draft" }, asked: asked.trim() }, 250);
  const query = useQuery(promptQuery(promptPart(written.draft), written.asked));
  return (
    <div className={classes.prompt}>
      <Section title={t.exactPrompt} actions={query.data && <CopyIcon value={query.data.text} />}>
        <Stack gap="sm">
          <TextInput
            size="xs"
            label={t.request}
            description={t.requestHint}
            value={asked}
            maxLength={2000}
            onChange={({ currentTarget }) => setAsked(currentTarget.value)}
          />
          <Loaded query={query} skeleton={<Skeleton h={360} />}>
            {(prompt) => <Prompt prompt={prompt} />}
          </Loaded>
        </Stack>
      </Section>
    </div>
  );
}

function Prompt({ prompt }: { prompt: AgentPrompt }) {
  const t = useText(table);
  const format = useFormat();
  // The whole bar is what it may come to: what is free of the budget stays empty.
  const most = Math.max(prompt.own_tokens + Math.max(prompt.index_tokens, prompt.budget ?? 0), 1);
  return (
    <Stack gap="sm">
      <Group gap="md" role="status">
        <Text fw={600}>{t.tokens(format.number(prompt.tokens))}</Text>
        <Text size="sm" c="dimmed">
          {t.own} {format.number(prompt.own_tokens)} · {t.index} {format.number(prompt.index_tokens)}
          {prompt.budget !== null && ` / ${format.number(prompt.budget)}`}
        </Text>
      </Group>
      <div className={classes.bar} aria-hidden data-testid="budget">
        <span className={classes.own} style={{ width: `${(prompt.own_tokens / most) * 100}%` }} />
        <span className={classes.index} style={{ width: `${(prompt.index_tokens / most) * 100}%` }} />
      </div>
      <Tabs defaultValue="text">
        <Tabs.List>
          <Tabs.Tab value="text">{t.text}</Tabs.Tab>
          <Tabs.Tab value="costs">{t.costs}</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="text" pt="sm">
          <ScrollArea.Autosize mah="56vh" type="auto" viewportProps={{ tabIndex: 0, "aria-label": t.text, role: "region" }}>
            <pre className={classes.text}>{visible(prompt.text)}</pre>
          </ScrollArea.Autosize>
        </Tabs.Panel>
        <Tabs.Panel value="costs" pt="sm">
          <Costs skills={prompt.skills} />
        </Tabs.Panel>
      </Tabs>
    </Stack>
  );
}

function Costs({ skills }: { skills: readonly AgentShare[] }) {
  const t = useText(table);
  const format = useFormat();
  return (
    <ScrollArea.Autosize mah="56vh" type="auto" viewportProps={{ tabIndex: 0, "aria-label": t.costs, role: "region" }}>
      <Table verticalSpacing={6} fz="sm">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t.skills}</Table.Th>
            <Table.Td />
            <Table.Th ta="right">{t.inPrompt}</Table.Th>
            <Table.Th ta="right">{t.whenRead}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {skills.map((skill) => (
            <Table.Tr key={skill.id}>
              <Table.Td>
                <Text size="sm" fw={560}>
                  <bdi>{visible(skill.name)}</bdi>
                </Text>
                <Text size="xs" c="dimmed" lineClamp={1}>
                  <bdi>{visible(skill.description)}</bdi>
                </Text>
              </Table.Td>
              <Table.Td>
                <Tooltip label={skill.reason ?? t.shown[skill.shown]}>
                  <Badge color={COLOURS[skill.shown]}>{t.shown[skill.shown]}</Badge>
                </Tooltip>
              </Table.Td>
              <Table.Td ta="right">{format.number(skill.tokens)}</Table.Td>
              <Table.Td ta="right">{format.number(skill.skill_md_tokens)}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </ScrollArea.Autosize>
  );
}

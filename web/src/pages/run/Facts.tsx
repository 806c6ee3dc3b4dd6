/** When a run was, and what carried it. */
import { Code, Group, Text } from "@mantine/core";

import type { RunDetail } from "@/api/runs";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { CopyIcon } from "@/parts/CopyIcon";
import { type Fact, FactList } from "@/parts/FactList";
import { callerName } from "@/parts/figures";
import { visible } from "@/parts/foreign";
import { AnchorLink } from "@/parts/links";
import { Section } from "@/parts/Section";

import { runs } from "../runs/words";

export function Facts({ run }: { run: RunDetail }) {
  const t = useText(runs);
  const format = useFormat();
  const facts: Fact[] = [
    [t.facts.id, <Copied key="id" text={run.run_id} />],
    [t.facts.asked, format.time(run.created_at)],
    [t.facts.took, run.duration_ms === null ? null : format.duration(run.duration_ms)],
    [t.facts.interface, run.interface && (t.interfaces[run.interface] ?? run.interface)],
    [
      t.facts.caller,
      run.caller && (
        <AnchorLink key="caller" to="/runs" search={{ caller: run.caller }} size="sm">
          <bdi>{visible(callerName(run.caller))}</bdi>
        </AnchorLink>
      ),
    ],
    [
      t.facts.agent,
      run.agent && (
        <AnchorLink key="agent" to="/runs" search={{ agent: run.agent }} size="sm">
          <bdi>{visible(run.agent)}</bdi>
        </AnchorLink>
      ),
    ],
    [
      t.ofSchedule,
      run.schedule && (
        <AnchorLink key="schedule" to="/schedules/$name" params={{ name: run.schedule }} size="sm">
          <bdi>{visible(run.schedule)}</bdi>
        </AnchorLink>
      ),
    ],
    [t.facts.version, run.version && visible(run.version)],
    [t.facts.kind, run.ran_as && run.ran_as !== run.kind ? `${run.kind} → ${run.ran_as}` : run.kind],
    [t.facts.entry, run.entry && <Code>{visible(run.entry)}</Code>],
    [t.commandLine, run.arguments.length > 0 && <Code key="arguments">{run.arguments.map(visible).join(" ")}</Code>],
    [t.packages, run.packages.length > 0 && run.packages.map(visible).join(", ")],
    [t.exitCode, run.exit_code ? String(run.exit_code) : null],
    [t.usedMemory, run.memory_usage === null ? null : format.bytes(run.memory_usage)],
    [t.tokens, run.token_usage === null ? null : visible(JSON.stringify(run.token_usage))],
    [t.facts.interpreter, run.interpreter && visible(run.interpreter)],
    [t.facts.isolation, run.isolation],
    [t.facts.digest, run.digest && <Copied key="digest" text={run.digest} short />],
    [t.facts.expires, run.expires_at && format.time(run.expires_at)],
  ];
  return (
    <Section title={t.run}>
      <FactList facts={facts} />
    </Section>
  );
}

function Copied({ text, short = false }: { text: string; short?: boolean }) {
  return (
    <Group gap={4} wrap="nowrap">
      <Text size="sm" ff="monospace" truncate>
        {short ? `${text.slice(0, 19)}…` : text}
      </Text>
      <CopyIcon value={text} />
    </Group>
  );
}

/** Where the time went: each span where it began and as long as it took; one opens to what is known of it, and a table says the same. */
import { ActionIcon, Badge, Box, Collapse, Group, Table, Text, Tooltip, UnstyledButton } from "@mantine/core";
import { IconChartBar, IconChevronRight, IconHourglass, IconListCheck, IconPlayerPlay, IconSparkles, IconTable, IconTool, type Icon } from "@tabler/icons-react";
import { useState } from "react";

import type { RunStep } from "@/api/runs";
import { type Span, spansOf, type Timeline } from "@/api/timeline";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { DataTable } from "@/parts/DataTable";
import { visible } from "@/parts/foreign";
import { AnchorLink } from "@/parts/links";
import { Value } from "@/parts/Value";

import { timeline as said } from "./timelineWords";
import classes from "./Waterfall.module.css";

const ICONS: Record<Span["kind"], Icon> = { model: IconSparkles, tool: IconTool, waiting: IconHourglass, script: IconPlayerPlay, step: IconListCheck };
const COLOURS: Record<Span["state"], string> = { ok: "pine", failed: "red", refused: "orange", stopped: "gray", waiting: "yellow", running: "blue" };

/** The steps of a script alone. */
export function Steps({ steps }: { steps: readonly RunStep[] }) {
  return <Rows spans={spansOf(steps)} steps={steps} />;
}

interface Props {
  timeline: Timeline;
  /** Those of the run, where it is one. */
  steps?: readonly RunStep[];
}

export function Waterfall({ timeline, steps = [] }: Props) {
  const t = useText(said);
  const format = useFormat();
  const [asTable, setAsTable] = useState(false);
  const { spans, duration_ms, waiting_ms, input_tokens, output_tokens, cost, currency } = timeline;
  const Icon = asTable ? IconChartBar : IconTable;
  const facts = [
    t.whole(format.duration(duration_ms)),
    waiting_ms > 0 && t.waited(format.duration(waiting_ms)),
    input_tokens + output_tokens > 0 && t.tokens(format.number(input_tokens), format.number(output_tokens)),
    cost !== null && format.money(cost, currency),
  ];
  return (
    <figure className={classes.figure} aria-label={t.title}>
      <Group justify="space-between" wrap="nowrap" gap="md" mb={6}>
        <Text size="sm" c="dimmed" component="figcaption">
          {spans.length === 0 ? t.nothing : facts.filter(Boolean).join(" · ")}
        </Text>
        {spans.length > 0 && (
          <Tooltip label={asTable ? t.asChart : t.asTable}>
            <ActionIcon size="sm" aria-label={asTable ? t.asChart : t.asTable} onClick={() => setAsTable(!asTable)}>
              <Icon size={16} stroke={1.6} />
            </ActionIcon>
          </Tooltip>
        )}
      </Group>
      {asTable ? <Figures spans={spans} currency={currency} /> : <Rows spans={spans} steps={steps} currency={currency} />}
    </figure>
  );
}

/** The longest of those that have nothing inside, where there are several; to wait is no work. */
function slowestOf(spans: readonly Span[]): Span | undefined {
  const work = spans.filter((span, index) => span.kind !== "waiting" && (spans[index + 1]?.depth ?? 0) <= span.depth);
  const longest = work.reduce<Span | undefined>((most, span) => (most && most.duration_ms >= span.duration_ms ? most : span), undefined);
  return work.length > 1 && longest && longest.duration_ms > 0 ? longest : undefined;
}

function Rows({ spans, steps, currency = "" }: { spans: readonly Span[]; steps: readonly RunStep[]; currency?: string }) {
  const whole = Math.max(1, ...spans.map(({ begin_ms, duration_ms }) => begin_ms + duration_ms));
  const slowest = slowestOf(spans);
  return (
    <Box component="ol" className={classes.steps ?? ""}>
      {spans.map((span, index) => (
        <Row key={index} span={span} step={span.step === null ? undefined : steps[span.step]} whole={whole} slowest={span === slowest} currency={currency} />
      ))}
    </Box>
  );
}

function useName({ kind, name, call }: Span): string {
  const t = useText(said);
  if (kind !== "waiting") return visible(name) || t.kinds[kind];
  return call === null ? t.waitsToStart : t.waitsFor(visible(name)); // a run waits for its own beginning
}

function Row({ span, step, whole, slowest, currency }: { span: Span; step: RunStep | undefined; whole: number; slowest: boolean; currency: string }) {
  const t = useText(said);
  const format = useFormat();
  const [opened, setOpened] = useState(false);
  const name = useName(span);
  const Icon = ICONS[span.kind];
  return (
    <li className={classes.step}>
      <UnstyledButton className={classes.head ?? ""} aria-expanded={opened} onClick={() => setOpened(!opened)}>
        <IconChevronRight size={15} className={classes.arrow ?? ""} data-opened={opened || undefined} aria-hidden />
        <Group gap={8} wrap="nowrap" className={classes.name ?? ""} pl={span.depth * 14}>
          <Icon size={15} stroke={1.6} className={classes.kind ?? ""} role="img" aria-label={t.kinds[span.kind]} />
          <Text size="sm" fw={560} truncate title={name}>
            <bdi>{name}</bdi>
          </Text>
          {span.state !== "ok" && (
            <Badge color={COLOURS[span.state]} className={classes.mark ?? ""}>
              {t.states[span.state]}
            </Badge>
          )}
          {slowest && span.state === "ok" && (
            <Badge color="yellow" className={classes.mark ?? ""} visibleFrom="xs">
              {t.slowest}
            </Badge>
          )}
        </Group>
        <span className={classes.track} aria-hidden>
          <span
            className={classes.bar}
            data-kind={span.kind}
            data-state={span.state}
            data-slowest={slowest || undefined}
            style={{ insetInlineStart: `min(${(span.begin_ms / whole) * 100}%, 100% - 3px)`, width: `max(3px, ${(span.duration_ms / whole) * 100}%)` }}
          />
        </span>
        <Text size="sm" c="dimmed" className={classes.took ?? ""}>
          {format.duration(span.duration_ms)}
        </Text>
      </UnstyledButton>
      <Collapse expanded={opened}>{opened && <Inside span={span} step={step} currency={currency} />}</Collapse>
    </li>
  );
}

function Inside({ span, step, currency }: { span: Span; step: RunStep | undefined; currency: string }) {
  const t = useText(said);
  const format = useFormat();
  const failed = step?.error !== null && step?.error !== undefined;
  const facts = [
    t.kinds[span.kind],
    t.states[span.state],
    t.begins(format.duration(span.begin_ms)),
    span.input_tokens + span.output_tokens > 0 && t.tokens(format.number(span.input_tokens), format.number(span.output_tokens)),
    span.cost !== null && format.money(span.cost, currency),
    span.tokens > 0 && t.result(format.number(span.tokens)),
    span.code && `${t.code}: ${visible(span.code)}`,
  ];
  return (
    <Box className={classes.inside}>
      <Text size="xs" c="dimmed">
        {facts.filter(Boolean).join(" · ")}
      </Text>
      {step && failed && <Part title={t.stepError} value={step.error} />}
      {step && <Part title={t.stepInput} value={step.input} />}
      {step && <Part title={t.stepOutput} value={step.output} />}
      {(span.skill ?? span.run) && !step && (
        <Group gap="md">
          {span.skill && (
            <AnchorLink to="/skills/$id" params={{ id: span.skill }} size="sm">
              {t.openSkill}
            </AnchorLink>
          )}
          {span.run && (
            <AnchorLink to="/runs/$id" params={{ id: span.run }} size="sm">
              {t.openRun}
            </AnchorLink>
          )}
        </Group>
      )}
    </Box>
  );
}

function Part({ title, value }: { title: string; value: unknown }) {
  return (
    <Box>
      <Text size="xs" fw={600} c="dimmed" mb={4}>
        {title}
      </Text>
      <Value value={value} />
    </Box>
  );
}

function Figures({ spans, currency }: { spans: readonly Span[]; currency: string }) {
  const t = useText(said);
  const { what, kind, state, begin, took, tokens, cost } = t.columns;
  const priced = spans.some((span) => span.cost !== null);
  const right = (name: string) => ({ name, right: true });
  return (
    <DataTable minWidth={520} dense columns={[what, kind, state, right(begin), right(took), right(tokens), ...(priced ? [right(cost)] : [])]}>
      {spans.map((span, index) => (
        <Line key={index} span={span} currency={priced ? currency : undefined} />
      ))}
    </DataTable>
  );
}

function Line({ span, currency }: { span: Span; currency: string | undefined }) {
  const t = useText(said);
  const format = useFormat();
  const tokens = span.input_tokens + span.output_tokens + span.tokens;
  return (
    <Table.Tr>
      <Table.Td pl={span.depth * 14 + 10}>
        <bdi>{useName(span)}</bdi>
      </Table.Td>
      <Table.Td>{t.kinds[span.kind]}</Table.Td>
      <Table.Td>{t.states[span.state]}</Table.Td>
      <Table.Td ta="right">{format.duration(span.begin_ms)}</Table.Td>
      <Table.Td ta="right">{format.duration(span.duration_ms)}</Table.Td>
      <Table.Td ta="right">{tokens > 0 && format.number(tokens)}</Table.Td>
      {currency !== undefined && <Table.Td ta="right">{span.cost !== null && format.money(span.cost, currency)}</Table.Td>}
    </Table.Tr>
  );
}

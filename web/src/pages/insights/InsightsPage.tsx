/** Figures in a table: by skill, version, agent, caller, interface or model, over some time, each row with the way to its runs. */
import { Alert, Group, NativeSelect, Pill, SegmentedControl, Skeleton, Stack, Switch, Table, Text, Tooltip, UnstyledButton } from "@mantine/core";
import { IconArrowDown, IconArrowUp, IconChartBar, IconMoodHappy } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";

import { daysAgo, type Dimension, DIMENSIONS, type InsightReport, type InsightRow, insightsQuery } from "@/api/insights";
import { useMay } from "@/api/scopes";
import { RANGES } from "@/app/search";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { Bars } from "@/parts/Bars";
import { DataTable } from "@/parts/DataTable";
import { EmptyState } from "@/parts/EmptyState";
import { callerName, skillName } from "@/parts/figures";
import { visible } from "@/parts/foreign";
import { AnchorLink } from "@/parts/links";
import { Loaded } from "@/parts/Loaded";
import { Page } from "@/parts/Page";
import { Section } from "@/parts/Section";

import { type Column, COLUMNS, ordered, runsOf, withFigures, turnsOf, valueOf } from "./columns";
import classes from "./InsightsPage.module.css";
import { insights } from "./words";

const route = getRouteApi("/insights");
const USUAL = 14;
const MOST = 100;
const BY_DAY = 30; // over more days a bar is a week

export function InsightsPage() {
  const t = useText(insights);
  const chosen = route.useSearch();
  const navigate = route.useNavigate();
  const admin = useMay("admin", false);
  const { by = "skill", days = USUAL } = chosen;
  const span = { since: daysAgo(days - 1), until: daysAgo(0) };
  const table = useQuery(insightsQuery({ by, ...span, skill: chosen.skill, unused: chosen.unused ?? false, limit: MOST }));
  const time = useQuery(insightsQuery({ by: "interface", ...span, period: days > BY_DAY ? "week" : "day", skill: chosen.skill }));
  const choose = (change: Partial<typeof chosen>) => void navigate({ search: (before) => ({ ...before, ...change }), replace: true, resetScroll: false });
  return (
    <Page
      title={t.title}
      lead={t.lead}
      actions={
        <NativeSelect
          aria-label={t.range}
          data={RANGES.map((count) => ({ value: String(count), label: t.days(count) }))}
          value={String(days)}
          onChange={({ currentTarget }) => choose({ days: Number(currentTarget.value) === USUAL ? undefined : Number(currentTarget.value) })}
        />
      }
    >
      <Stack gap="md">
        {chosen.skill && (
          <Pill size="lg" withRemoveButton removeButtonProps={{ "aria-label": t.anySkill, "aria-hidden": false, tabIndex: 0 }} onRemove={() => choose({ skill: undefined })} className={classes.pill ?? ""}>
            {t.ofSkill} <bdi>{visible(skillName(chosen.skill))}</bdi>
          </Pill>
        )}
        <Loaded query={time} skeleton={<Skeleton h={302} />}>
          {(report) => <OverTime report={report} days={days} skill={chosen.skill} />}
        </Loaded>
        <Group gap="md" justify="space-between">
          <div className={classes.choices}>
            <SegmentedControl
              aria-label={t.by}
              value={by}
              onChange={(value) => choose({ by: value === "skill" ? undefined : value, sort: undefined, up: undefined, unused: undefined })}
              data={DIMENSIONS.filter((one) => one !== "caller" || admin).map((value) => ({ value, label: t.dimensions[value] }))}
            />
          </div>
          {by === "skill" && (
            <Tooltip label={t.unusedWhy}>
              <Switch label={t.unused} checked={chosen.unused ?? false} onChange={({ currentTarget }) => choose({ unused: currentTarget.checked || undefined })} />
            </Tooltip>
          )}
        </Group>
        <Loaded query={table} skeleton={<Skeleton h={360} />}>
          {(report) => (report.by === by ? <Rows report={report} /> : <Skeleton h={360} />)}
        </Loaded>
      </Stack>
    </Page>
  );
}

function OverTime({ report, days, skill }: { report: InsightReport; days: number; skill: string | undefined }) {
  const t = useText(insights);
  const format = useFormat();
  const { figures, periods } = report.total;
  return (
    <Section title={t.chart(days)} lead={
        figures.turns > 0 && (
          <AnchorLink to="/chat/turns" search={{ since: report.since, until: report.until, ...(skill ? { skill } : {}) }} size="sm" c="dimmed">
            {t.turnsOf(format.number(figures.turns), format.number(figures.turns_failed))}
          </AnchorLink>
        )
      }>
      {!report.complete && (
        <Alert color="gray" mb="sm" py={8}>
          {t.adding}
        </Alert>
      )}
      <Bars
        label={t.chart(days)}
        parts={[
          { name: t.good, colour: "good", state: "succeeded" },
          { name: t.bad, colour: "bad", state: "failed" },
          { name: t.other, colour: "other" },
        ]}
        bars={periods.map(({ runs, runs_succeeded, runs_failed }, index) => {
          const since = report.periods[index] ?? report.since;
          const until = lastDay(report.periods[index + 1], report.until);
          return {
            label: since === until ? format.day(since) : `${format.day(since)} – ${format.day(until)}`,
            counts: [runs_succeeded, runs_failed, runs - runs_succeeded - runs_failed],
            runs: { since, until, tests: false, ...(skill ? { skill } : {}) },
          };
        })}
      />
    </Section>
  );
}

/** The day before the next period begins, or the last of all. */
const lastDay = (next: string | undefined, last: string): string => (next ? new Date(Date.parse(next) - 86_400_000).toISOString().slice(0, 10) : last);

function Rows({ report }: { report: InsightReport }) {
  const t = useText(insights);
  const format = useFormat();
  const { sort, up = false, unused = false, skill } = route.useSearch();
  const priced = report.total.figures.cost !== null;
  // A column that says nothing of any row is left out.
  const columns = (unused ? (["offered"] as const) : COLUMNS[report.by]).filter((one) => report.rows.some(({ figures }) => valueOf(one, figures)));
  const by = sort === "name" ? "name" : columns.find((one) => one === sort);
  const most = Math.max(1, ...report.rows.map(({ figures }) => figures.runs));
  if (columns.length === 0)
    return unused ? <EmptyState icon={IconMoodHappy} title={t.noneUnused} hint={t.noneUnusedHint} /> : <EmptyState icon={IconChartBar} title={t.none} hint={t.noneHint} />;
  return (
    <>
      <DataTable minWidth={Math.min(320, 200 + columns.length * 80)} columns={[{ name: <Sorting column="name" /> }, ...columns.map((column) => ({ name: <Sorting column={column} />, right: true }))]}>
        {ordered(withFigures(report.rows, columns), by, up).map((row) => (
          <Table.Tr key={`${row.skill ?? ""} ${row.key}`}>
            <Table.Td className={classes.name ?? ""}>
              <Name by={report.by} row={row} />
              {unused && (
                <AnchorLink to="/skills/$id" params={{ id: row.key }} search={{ tab: "triggers" }} size="xs" display="block" aria-label={t.changeOf(visible(skillName(row.key)))}>
                  {t.change}
                </AnchorLink>
              )}
            </Table.Td>
            {columns.map((column) => (
              <Table.Td key={column} ta="right" className={classes.figure ?? ""}>
                {column === "runs" ? <Runs by={report.by} row={row} days={{ since: report.since, until: report.until }} skill={skill} most={most} /> : <Cell by={report.by} column={column} row={row} currency={report.currency} days={{ since: report.since, until: report.until }} skill={skill} />}
              </Table.Td>
            ))}
          </Table.Tr>
        ))}
      </DataTable>
      <Text size="xs" c="dimmed">
        {[report.rows.length === MOST && t.shown(format.number(MOST)), !priced && COLUMNS[report.by].includes("cost") && t.prices].filter(Boolean).join(" ")}
      </Text>
    </>
  );
}

/** The head of a column: pressed once, the largest stand first, and again the smallest. */
function Sorting({ column }: { column: Column | "name" }) {
  const t = useText(insights);
  const { sort, up = false } = route.useSearch();
  const navigate = route.useNavigate();
  const chosen = sort === column;
  const hints: Readonly<Record<string, string | undefined>> = t.why;
  const Icon = up ? IconArrowUp : IconArrowDown;
  const head = (
    <UnstyledButton
      className={classes.head}
      aria-label={t.sortBy(t.columns[column])}
      aria-pressed={chosen}
      onClick={() => void navigate({ search: (before) => ({ ...before, sort: column, up: chosen && !up ? true : undefined }), replace: true, resetScroll: false })}
    >
      {chosen && <Icon size={13} stroke={2} aria-hidden />}
      {t.columns[column]}
    </UnstyledButton>
  );
  return hints[column] ? <Tooltip label={hints[column]}>{head}</Tooltip> : head;
}

function Name({ by, row }: { by: Dimension; row: InsightRow }) {
  const t = useText(insights);
  if (by === "skill" || by === "version")
    return (
      <>
        <AnchorLink to="/skills/$id" params={{ id: row.skill ?? row.key }} size="sm" fw={560}>
          <bdi>{visible(skillName(row.skill ?? row.key))}</bdi>
        </AnchorLink>
        {by === "version" && (
          <Text span size="sm" c="dimmed" ff={row.key ? "monospace" : undefined}>
            {" "}
            {row.key ? visible(row.key) : t.unknown}
          </Text>
        )}
      </>
    );
  return (
    <Text span size="sm" c={row.key ? undefined : "dimmed"}>
      <bdi>{by === "interface" ? (t.interfaces[row.key] ?? (visible(row.key) || t.unknown)) : visible(by === "caller" ? callerName(row.key) : row.key) || t.unknown}</bdi>
    </Text>
  );
}

function Runs({ by, row, days, skill, most }: { by: Dimension; row: InsightRow; days: { since: string; until: string }; skill: string | undefined; most: number }) {
  const t = useText(insights);
  const format = useFormat();
  const { runs, runs_failed } = row.figures;
  const search = runsOf(by, row, days, skill);
  const said = format.number(runs);
  if (runs === 0) return <Nothing />;
  return (
    <span className={classes.runs}>
      <span className={classes.share} aria-hidden>
        <span data-colour="good" style={{ width: `${((runs - runs_failed) / most) * 100}%` }} />
        <span data-colour="bad" style={{ width: `${(runs_failed / most) * 100}%` }} />
      </span>
      {search ? (
        <AnchorLink to="/runs" search={search} size="sm" aria-label={t.seeRuns(said, visible(row.key))}>
          {said}
        </AnchorLink>
      ) : (
        said
      )}
    </span>
  );
}

function Cell({ by, column, row, currency, days, skill }: { by: Dimension; column: Column; row: InsightRow; currency: string; days: { since: string; until: string }; skill: string | undefined }) {
  const t = useText(insights);
  const format = useFormat();
  const value = valueOf(column, row.figures);
  if (!value) return <Nothing />;
  if (column === "p50" || column === "p95") return format.duration(value);
  if (column === "cost") return format.money(value, currency);
  if (column === "tokens") return format.short(value);
  if (column === "failed") {
    const runs = runsOf(by, row, days, skill);
    const said = format.share(value);
    const seen = value >= 0.2 ? classes.bad : undefined;
    return runs ? (
      <AnchorLink to="/runs" search={{ ...runs, state: "failed" }} size="sm" {...(seen ? { className: seen } : { c: "inherit" })} aria-label={t.seeFailed(said, visible(row.key))}>
        {said}
      </AnchorLink>
    ) : (
      <span className={seen}>{said}</span>
    );
  }
  const turns = turnsOf(column, by, row, days, skill);
  const said = format.number(value);
  return turns ? (
    <AnchorLink to="/chat/turns" search={turns} size="sm" aria-label={t.seeTurns(said, t.columns[column], visible(row.key))}>
      {said}
    </AnchorLink>
  ) : (
    said
  );
}

const Nothing = () => (
  <Text span size="sm" c="dimmed" aria-hidden>
    –
  </Text>
);

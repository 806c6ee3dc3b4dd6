/** A skill at a glance: how much it is used and by whom, how far it gets, how long it takes, what it costs and may do. */
import { Badge, Box, Code, Group, SegmentedControl, Skeleton, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import { daysAgo, type Dimension, type Figures, insightsQuery, type InsightReport, laterBy } from "@/api/insights";
import { useMay } from "@/api/scopes";
import { installedId, modelTextQuery, scanQuery, type SkillDetail } from "@/api/skills";
import { versionsQuery } from "@/api/versions";
import type { RANGES, RunsSearch } from "@/app/search";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { Bars, Meter } from "@/parts/Bars";
import { CopyLine } from "@/parts/CopyLine";
import { callerName, failedShare, skillName } from "@/parts/figures";
import { visible } from "@/parts/foreign";
import { AnchorLink } from "@/parts/links";
import { Loaded } from "@/parts/Loaded";
import { PowerList } from "@/parts/PowerList";
import { ScanBadge } from "@/parts/ScanBadge";
import { Empty, Section } from "@/parts/Section";

import { runsOf } from "../insights/columns";
import { insights } from "../insights/words";
import { installCommand } from "./installCommand";
import classes from "./Overview.module.css";
import { overview } from "./overviewWords";
import page from "./SkillPage.module.css";

const route = getRouteApi("/skills/$id");
const CHOICES = [14, 90] as const satisfies readonly (typeof RANGES)[number][];

export default function Overview({ skill }: { skill: SkillDetail }) {
  const { days = CHOICES[0] } = route.useSearch();
  const span = { since: daysAgo(days - 1), until: daysAgo(0) };
  return (
    <Box className={page.columns}>
      <Stack gap="md" miw={0}>
        <Use skill={skill} days={days} span={span} />
        <Users skill={skill} span={span} />
      </Stack>
      <Side skill={skill} />
    </Box>
  );
}

interface Span {
  since: string;
  until: string;
}

function Use({ skill, days, span }: { skill: SkillDetail; days: number; span: Span }) {
  const t = useText(overview);
  const i = useText(insights);
  const navigate = route.useNavigate();
  const report = useQuery(insightsQuery({ by: "interface", ...span, skill: skill.id, period: days > CHOICES[0] ? "week" : "day" }));
  return (
    <Section
      title={t.use}
      actions={
        <SegmentedControl
          size="xs"
          aria-label={i.range}
          value={String(days)}
          onChange={(value) => void navigate({ search: (before) => ({ ...before, days: Number(value) === CHOICES[0] ? undefined : Number(value) }), replace: true, resetScroll: false })}
          data={CHOICES.map((count) => ({ value: String(count), label: i.days(count) }))}
        />
      }
    >
      <Loaded query={report} skeleton={<Skeleton h={440} />}>
        {(found) => {
          const { figures } = found.total;
          return figures.runs + figures.offered + figures.loaded + figures.refused === 0 ? (
            <Empty>{t.never(days)}</Empty>
          ) : (
            <Stack gap="lg">
              <Numbers figures={figures} currency={found.currency} skill={skill.id} span={span} />
              {figures.runs > 0 && <Days report={found} skill={skill.id} />}
              <Funnel figures={figures} skill={skill.id} span={span} />
            </Stack>
          );
        }}
      </Loaded>
    </Section>
  );
}

function Numbers({ figures, currency, skill, span }: { figures: Figures; currency: string; skill: string; span: Span }) {
  const t = useText(overview);
  const format = useFormat();
  const failed = failedShare(figures);
  const tokens = figures.input_tokens + figures.output_tokens;
  const runs = (text: string, search: RunsSearch = {}) => (
    <AnchorLink to="/runs" search={{ skill, ...span, tests: false, ...search }} inherit c="inherit">
      {text}
    </AnchorLink>
  );
  const facts: [string, ReactNode][] = [
    [t.runs, runs(format.number(figures.runs))],
    [t.rate, failed === undefined ? undefined : runs(format.share(1 - failed), { state: "succeeded" })],
    [t.p50, figures.p50_ms === null ? undefined : format.duration(figures.p50_ms)],
    [t.p95, figures.p95_ms === null ? undefined : format.duration(figures.p95_ms)],
    [
      t.refused,
      figures.refused > 0 ? (
        <AnchorLink to="/chat/turns" search={{ skill, stage: "refused", ...span }} inherit c="inherit">
          {format.number(figures.refused)}
        </AnchorLink>
      ) : undefined,
    ],
    [t.tokens, tokens > 0 ? format.short(tokens) : undefined],
    [t.cost, figures.cost === null ? undefined : format.money(figures.cost, currency)],
  ];
  return (
    <dl className={classes.numbers}>
      {facts
        .filter(([, value]) => value !== undefined)
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

function Days({ report, skill }: { report: InsightReport; skill: string }) {
  const t = useText(overview);
  const i = useText(insights);
  const format = useFormat();
  return (
    <Bars
      label={t.chart}
      height={110}
      parts={[
        { name: i.good, colour: "good", state: "succeeded" },
        { name: i.bad, colour: "bad", state: "failed" },
        { name: i.other, colour: "other" },
      ]}
      bars={report.total.periods.map(({ runs, runs_succeeded, runs_failed }, index) => {
        const since = report.periods[index] ?? report.since;
        const next = report.periods[index + 1];
        const until = next ? laterBy(-1, next) : report.until;
        return {
          label: since === until ? format.day(since) : `${format.day(since)} – ${format.day(until)}`,
          counts: [runs_succeeded, runs_failed, runs - runs_succeeded - runs_failed],
          runs: { skill, since, until, tests: false },
        };
      })}
    />
  );
}

/** How far chats get with the skill: each stage beside the one before. */
function Funnel({ figures, skill, span }: { figures: Figures; skill: string; span: Span }) {
  const t = useText(overview);
  const i = useText(insights);
  const mayLook = useMay("runs:execute", false);
  const format = useFormat();
  const stages = (["offered", "loaded", "followed", "succeeded"] as const).map((name) => ({ name, count: figures[name] }));
  const most = Math.max(...stages.map(({ count }) => count));
  if (most === 0) return null;
  return (
    <Box component="section" aria-label={t.funnel}>
      <Text size="sm" fw={600}>
        {t.funnel}
      </Text>
      <Text size="xs" c="dimmed" mb={8}>
        {t.funnelWhy}
      </Text>
      <ol className={classes.funnel}>
        {stages.map(({ name, count }, index) => {
          const before = stages[index - 1]?.count;
          return (
            <li key={name}>
              <span className={classes.stage}>{t.stages[name]}</span>
              <span className={classes.reach} aria-hidden>
                <span style={{ width: `${(count / most) * 100}%` }} />
              </span>
              <span className={classes.count}>
                {count > 0 && mayLook ? (
                  <AnchorLink to="/chat/turns" search={{ skill, stage: name, ...span }} size="sm" aria-label={i.seeTurns(format.number(count), t.stages[name], visible(skillName(skill)))}>
                    {format.number(count)}
                  </AnchorLink>
                ) : (
                  format.number(count)
                )}
              </span>
              <span className={classes.part}>{before ? format.share(Math.min(1, count / before)) : ""}</span>
            </li>
          );
        })}
      </ol>
      {figures.followed > figures.loaded && (
        <Text size="xs" c="dimmed" mt={6}>
          {t.direct(figures.followed - figures.loaded, format.number(figures.followed - figures.loaded))}
        </Text>
      )}
      {figures.offered >= 5 && figures.loaded === 0 && figures.runs === 0 && (
        <Text size="sm" mt="sm">
          {t.unused}{" "}
          <AnchorLink to="/skills/$id" params={{ id: skill }} search={{ tab: "triggers" }} size="sm">
            {t.change}
          </AnchorLink>
        </Text>
      )}
    </Box>
  );
}

function Users({ skill, span }: { skill: SkillDetail; span: Span }) {
  const t = useText(overview);
  const admin = useMay("admin", false);
  const about: readonly Dimension[] = admin ? ["agent", "caller", "interface"] : ["agent", "interface"];
  return (
    <Section title={t.who}>
      <div className={classes.who}>
        {about.map((by) => (
          <By key={by} by={by} skill={skill.id} span={span} />
        ))}
      </div>
    </Section>
  );
}

const LISTED = 5;

function By({ by, skill, span }: { by: Dimension; skill: string; span: Span }) {
  const t = useText(overview);
  const i = useText(insights);
  const format = useFormat();
  const query = useQuery(insightsQuery({ by, ...span, skill, limit: LISTED + 1 }));
  return (
    <Box miw={0}>
      <Text size="xs" c="dimmed" mb={6}>
        {i.dimensions[by]}
      </Text>
      <Loaded query={query} skeleton={<Skeleton h={60} />}>
        {({ rows }) => {
          const used = rows.filter(({ key, figures }) => key && figures.runs + figures.loaded > 0).slice(0, LISTED);
          const most = Math.max(1, ...used.map(({ figures }) => figures.runs + figures.loaded));
          if (used.length === 0) return <Empty>{by === "agent" ? t.noAgent : t.nobody}</Empty>;
          return (
            <ul className={classes.users}>
              {used.map((row) => {
                const { runs, loaded } = row.figures;
                const name = by === "interface" ? (i.interfaces[row.key] ?? visible(row.key)) : visible(by === "caller" ? callerName(row.key) : row.key);
                const search = runs > 0 ? runsOf(by, row, span, skill) : undefined;
                return (
                  <li key={row.key}>
                    <Named search={search}>{name}</Named>
                    <span className={classes.count}>{format.number(runs || loaded)}</span>
                    <Meter share={(runs + loaded) / most} />
                  </li>
                );
              })}
            </ul>
          );
        }}
      </Loaded>
    </Box>
  );
}

function Named({ search, children }: { search: ReturnType<typeof runsOf>; children: string }) {
  return search ? (
    <AnchorLink to="/runs" search={search} size="sm" truncate>
      <bdi>{children}</bdi>
    </AnchorLink>
  ) : (
    <Text span size="sm" truncate>
      <bdi>{children}</bdi>
    </Text>
  );
}

function Side({ skill }: { skill: SkillDetail }) {
  const t = useText(overview);
  const known = installedId(skill.id);
  return (
    <Stack gap="lg" component="aside" miw={0}>
      <Part title={t.install}>
        <CopyLine text={installCommand(skill)} label={t.install} />
      </Part>
      <Price skill={skill} />
      {skill.powers && (
        <Part title={t.powers} more={<More id={skill.id} tab="safety" label={t.allSafety} />}>
          <PowerList powers={skill.powers} stacked />
        </Part>
      )}
      <Verdict skill={skill} />
      {known && <Versions id={skill.id} known={known} />}
    </Stack>
  );
}

function Price({ skill }: { skill: SkillDetail }) {
  const t = useText(overview);
  const format = useFormat();
  const { data } = useQuery({ ...modelTextQuery(skill.id), retry: false });
  return (
    <Part title={t.price} more={<More id={skill.id} tab="about" label={t.read} />}>
      <Text size="sm" mih={44}>
        {data && (
          <>
            {t.everyChat(format.number(data.description_tokens))}
            <br />
            {t.whenLoaded(format.number(data.tokens))}
          </>
        )}
      </Text>
    </Part>
  );
}

function Verdict({ skill }: { skill: SkillDetail }) {
  const t = useText(overview);
  const { data } = useQuery(scanQuery(skill.id));
  const open = data?.findings.filter(({ allowed }) => !allowed).length ?? 0;
  return (
    <Part title={t.scanner} more={<More id={skill.id} tab="safety" label={t.allFindings} />}>
      <Group gap={8} mih={24}>
        {data && (
          <>
            <ScanBadge worst={data.worst} findings={open} />
            {open > 0 && (
              <Text size="sm" c="dimmed">
                {t.findings(open)}
              </Text>
            )}
          </>
        )}
      </Group>
    </Part>
  );
}

const NEWEST = 3;

function Versions({ id, known }: { id: string; known: string }) {
  const t = useText(overview);
  const format = useFormat();
  const { data } = useQuery(versionsQuery(known));
  if (!data) return <Skeleton h={90} />;
  const [newest, older] = data.filter(({ removed }) => !removed);
  return (
    <Part title={t.versions} more={<More id={id} tab="versions" label={t.allVersions(data.length)} />}>
      <ul className={classes.versions}>
        {data.slice(0, NEWEST).map(({ version, declared_version, current, installed_at }) => (
          <li key={version}>
            <Code>{visible(declared_version ?? version)}</Code>
            {current && (
              <Badge size="xs" color="pine">
                {t.current}
              </Badge>
            )}
            <Text span size="xs" c="dimmed">
              {installed_at && format.ago(installed_at)}
            </Text>
          </li>
        ))}
      </ul>
      {newest && older && (
        <AnchorLink to="/skills/$id" params={{ id }} search={{ tab: "versions", before: older.version, after: newest.version }} size="sm">
          {t.compare}
        </AnchorLink>
      )}
    </Part>
  );
}

function Part({ title, more, children }: { title: string; more?: ReactNode; children: ReactNode }) {
  return (
    <Box component="section" aria-label={title}>
      <Group justify="space-between" mb={6} wrap="nowrap">
        <Text size="sm" fw={600}>
          {title}
        </Text>
        {more}
      </Group>
      {children}
    </Box>
  );
}

function More({ id, tab, label }: { id: string; tab: string; label: string }) {
  return (
    <Link to="/skills/$id" params={{ id }} search={{ tab }} className={classes.more}>
      {label}
    </Link>
  );
}

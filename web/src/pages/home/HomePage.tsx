/** Where one begins: what waits for an answer, what fails now, the last fortnight, and which skills are used, get worse or lie idle. */
import { Box, Group, Skeleton, Stack, Text } from "@mantine/core";
import { IconAlertTriangle, IconCalendarPause, IconCircleCheck, IconHelpCircle, type Icon } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link, type LinkProps } from "@tanstack/react-router";
import { lazy, type ReactNode, Suspense } from "react";

import { questionsQuery } from "@/api/approvals";
import { chatQuestionsQuery } from "@/api/chat";
import { daysAgo, type InsightReport, insightsQuery } from "@/api/insights";
import { fetched } from "@/api/parts";
import { failuresQuery, runCountQuery } from "@/api/runs";
import { schedulesQuery } from "@/api/schedules";
import { useMay } from "@/api/scopes";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { Bars, Meter } from "@/parts/Bars";
import { ErrorState } from "@/parts/ErrorState";
import { declines, failing, failedShare, skillName } from "@/parts/figures";
import { visible } from "@/parts/foreign";
import { AnchorLink } from "@/parts/links";
import { Page } from "@/parts/Page";
import { Empty, Section } from "@/parts/Section";

import classes from "./HomePage.module.css";
import { home } from "./words";

const FirstSteps = lazy(() => fetched(import("./FirstSteps")));

const DAYS = 14;
const SHOWN = 6;
const RECENT_DAYS = 3; // what failed before, and was not run again, is no news
const LOOK_MS = 20_000;

/** All that the page draws, asked at once so that it comes at once. */
function useHome() {
  const [since, until] = [daysAgo(DAYS - 1), daysAgo(0)];
  const runs = useMay("runs:execute", false);
  const asked = [
    useQuery({ ...questionsQuery(), refetchInterval: LOOK_MS, enabled: useMay("admin", false) }),
    useQuery({ ...chatQuestionsQuery(), refetchInterval: LOOK_MS, enabled: runs }),
  ] as const;
  const failures = useQuery(failuresQuery(daysAgo(RECENT_DAYS)));
  const schedules = useQuery(schedulesQuery());
  const ever = useQuery(runCountQuery());
  const days = useQuery(insightsQuery({ by: "interface", period: "day", since, until }));
  const now = useQuery(insightsQuery({ by: "skill", since, until }));
  const then = useQuery(insightsQuery({ by: "skill", since: daysAgo(2 * DAYS - 1), until: daysAgo(DAYS), limit: 200 }));
  const unused = useQuery(insightsQuery({ by: "skill", since, until, unused: true, limit: SHOWN }));
  const queries = [failures, schedules, ever, days, now, then, unused];
  return {
    coming: queries.some(({ isPending }) => isPending) || asked.some(({ isPending, isFetching }) => isPending && isFetching),
    failed: queries.find(({ error, data }) => error !== null && data === undefined),
    waits: [...(asked[0].data ?? []).map(({ id, title }) => ({ id, title })), ...(asked[1].data ?? []).map(({ turn_id, question }) => ({ id: turn_id + question.digest, title: question.title }))],
    failing: failing(failures.data?.failed ?? [], failures.data?.succeeded ?? []),
    held: (schedules.data ?? []).filter(({ held }) => held !== null),
    fresh: ever.data === 0 && days.data?.total.figures.turns === 0,
    days: days.data,
    now: now.data,
    then: then.data,
    unused: unused.data,
  };
}

export function HomePage() {
  const t = useText(home);
  const found = useHome();
  if (found.coming)
    return (
      <Page title={t.title}>
        <HomeSkeleton />
      </Page>
    );
  const { days, now, then, unused } = found;
  return (
    <Page title={t.title}>
      <Stack gap="md">
        {found.failed && <ErrorState error={found.failed.error} again={found.failed.refetch} />}
        {found.fresh ? (
          <>
            {found.waits.length > 0 && <Attention {...found} />}
            <Suspense fallback={<Skeleton h={260} />}>
              <FirstSteps />
            </Suspense>
          </>
        ) : (
          <>
            <Attention {...found} />
            {days && <Fortnight report={days} />}
            <div className={classes.lists}>
              {now && <Used report={now} />}
              {now && then && <Worse now={now} then={then} />}
              {unused && <Unused report={unused} />}
            </div>
          </>
        )}
      </Stack>
    </Page>
  );
}

function Attention({ waits, failing, held }: Pick<ReturnType<typeof useHome>, "waits" | "failing" | "held">) {
  const t = useText(home);
  const format = useFormat();
  const items = [
    ...waits.map(({ id, title }) => ({
      key: id,
      icon: IconHelpCircle,
      colour: "yellow",
      to: { to: "/approvals" } as LinkProps,
      title: visible(title),
      why: t.asks,
      when: "",
    })),
    ...failing.map(({ skill, name, last, count }) => ({
      key: skill,
      icon: IconAlertTriangle,
      colour: "red",
      to: (count === 1 ? { to: "/runs/$id", params: { id: last.run_id } } : { to: "/runs", search: { skill, state: "failed", tests: false } }) as LinkProps,
      title: visible(name),
      why: [t.fails(format.number(count)), last.error && visible(last.error.message ?? last.error.code)].filter(Boolean).join(": "),
      when: format.ago(last.created_at),
    })),
    ...held.map(({ name, held: why }) => ({
      key: `schedule ${name}`,
      icon: IconCalendarPause,
      colour: "yellow",
      to: { to: "/schedules/$name", params: { name } } as LinkProps,
      title: visible(name),
      why: `${t.held}: ${visible(why ?? "")}`,
      when: "",
    })),
  ];
  if (items.length === 0)
    return (
      <Group gap={8} className={classes.calm} wrap="nowrap">
        <IconCircleCheck size={18} stroke={1.7} aria-hidden />
        <Text size="sm">{t.calm}</Text>
      </Group>
    );
  return (
    <Section title={t.attention}>
      <ul className={classes.rows}>
        {items.slice(0, SHOWN).map(({ key, ...item }) => (
          <Item key={key} {...item} />
        ))}
      </ul>
      {items.length > SHOWN && (
        <Text size="xs" c="dimmed" mt={8}>
          {t.more(items.length - SHOWN)}
        </Text>
      )}
    </Section>
  );
}

function Item({ icon: Icon, colour, to, title, why, when }: { icon: Icon; colour: string; to: LinkProps; title: string; why: string; when: string }) {
  return (
    <li>
      <Link {...to} className={classes.item}>
        <Icon size={18} stroke={1.7} className={classes.sign ?? ""} data-colour={colour} aria-hidden />
        <span className={classes.what}>
          <Text component="span" size="sm" fw={600} truncate display="block">
            <bdi>{title}</bdi>
          </Text>
          <Text component="span" size="xs" c="dimmed" truncate display="block" title={why}>
            <bdi>{why}</bdi>
          </Text>
        </span>
        <Text component="span" size="xs" c="dimmed" className={classes.when}>
          {when}
        </Text>
      </Link>
    </li>
  );
}

function Fortnight({ report }: { report: InsightReport }) {
  const t = useText(home);
  const format = useFormat();
  const { figures, periods } = report.total;
  const share = failedShare(figures);
  const tokens = figures.input_tokens + figures.output_tokens;
  const facts: [string, string | undefined][] = [
    [t.runs, format.number(figures.runs)],
    [t.rate, share === undefined ? undefined : format.share(1 - share)],
    [t.p50, figures.p50_ms === null ? undefined : format.duration(figures.p50_ms)],
    [t.p95, figures.p95_ms === null ? undefined : format.duration(figures.p95_ms)],
    [t.turns, figures.turns ? format.number(figures.turns) : undefined],
    figures.cost === null ? [t.tokens, tokens ? format.short(tokens) : undefined] : [t.cost, format.money(figures.cost, report.currency)],
  ];
  return (
    <Section
      title={t.fortnight}
      empty={figures.runs === 0 && figures.turns === 0 && t.quiet}
      actions={
        <AnchorLink to="/insights" size="sm">
          {t.all}
        </AnchorLink>
      }
    >
      <dl className={classes.facts}>
        {facts
          .filter(([, value]) => value !== undefined)
          .map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
      </dl>
      <Bars
        label={t.chart}
        parts={[
          { name: t.good, colour: "good", state: "succeeded" },
          { name: t.bad, colour: "bad", state: "failed" },
          { name: t.other, colour: "other" },
        ]}
        bars={periods.map(({ runs, runs_succeeded, runs_failed }, index) => {
          const day = report.periods[index] ?? report.since;
          return { label: format.day(day), counts: [runs_succeeded, runs_failed, runs - runs_succeeded - runs_failed], runs: { since: day, until: day, tests: false } };
        })}
      />
    </Section>
  );
}

function Used({ report }: { report: InsightReport }) {
  const t = useText(home);
  const format = useFormat();
  const rows = report.rows.filter(({ figures: { runs, loaded } }) => runs + loaded > 0).slice(0, SHOWN);
  const most = Math.max(1, ...rows.map(({ figures: { runs, loaded } }) => runs + loaded));
  return (
    <Skills title={t.used} none={t.usedNone} empty={rows.length === 0}>
      {rows.map(({ key, figures: { runs, loaded } }) => (
        <SkillLine key={key} id={key} says={t.usedTimes(format.number(runs), format.number(loaded))}>
          <Meter share={(runs + loaded) / most} />
        </SkillLine>
      ))}
    </Skills>
  );
}

function Worse({ now, then }: { now: InsightReport; then: InsightReport }) {
  const t = useText(home);
  const format = useFormat();
  const rows = declines(now.rows, then.rows).slice(0, SHOWN);
  return (
    <Skills title={t.worse} lead={t.worseWhy} none={t.worseNone} empty={rows.length === 0}>
      {rows.map(({ skill, kind, before, after }) => (
        <SkillLine
          key={skill}
          id={skill}
          says={kind === "fails" ? t.worseFails(format.share(before), format.share(after)) : t.worseSlow(format.duration(before), format.duration(after))}
          colour="bad"
        />
      ))}
    </Skills>
  );
}

function Unused({ report }: { report: InsightReport }) {
  const t = useText(home);
  const format = useFormat();
  return (
    <Skills title={t.unused} lead={t.unusedWhy} none={t.unusedNone} empty={report.rows.length === 0}>
      {report.rows.map(({ key, figures }) => (
        <SkillLine key={key} id={key} says={t.offered(format.number(figures.offered))} />
      ))}
    </Skills>
  );
}

function Skills({ title, lead, none, empty, children }: { title: string; lead?: string; none: string; empty: boolean; children: ReactNode }) {
  return (
    <Section title={title}>
      {lead && (
        <Text size="xs" c="dimmed" mt={-6} mb={8}>
          {lead}
        </Text>
      )}
      {empty ? <Empty>{none}</Empty> : <ul className={classes.rows}>{children}</ul>}
    </Section>
  );
}

function SkillLine({ id, says, colour, children }: { id: string; says: string; colour?: string; children?: ReactNode }) {
  return (
    <li>
      <Link to="/skills/$id" params={{ id }} className={classes.skill}>
        <Text component="span" size="sm" fw={560} truncate display="block">
          <bdi>{visible(skillName(id))}</bdi>
        </Text>
        <Text component="span" size="xs" truncate display="block" className={classes.says} data-colour={colour}>
          {says}
        </Text>
        {children}
      </Link>
    </li>
  );
}

function HomeSkeleton() {
  return (
    <Stack gap="md" aria-hidden>
      <Skeleton h={46} />
      <Skeleton h={352} />
      <Box className={classes.lists}>
        {[1, 2, 3].map((one) => (
          <Skeleton key={one} h={280} />
        ))}
      </Box>
    </Stack>
  );
}

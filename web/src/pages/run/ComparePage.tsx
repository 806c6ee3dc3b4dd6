/** Two runs side by side: how they ran, what they were given, what came of them, and what they were held to. */
import { Button, Group, Skeleton, Stack, Switch, Text, TextInput } from "@mantine/core";
import { IconArrowsLeftRight } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";

import { newestRunsQuery, type RunDetail, runQuery } from "@/api/runs";
import type { CompareSearch } from "@/app/search";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { callerName } from "@/parts/figures";
import { visible } from "@/parts/foreign";
import { Loaded } from "@/parts/Loaded";
import { Page } from "@/parts/Page";
import { Empty, Section } from "@/parts/Section";

import { RunPlace, RunRow } from "../runs/RunRow";
import { runs } from "../runs/words";
import classes from "./ComparePage.module.css";
import { differs, type Pair, pairs } from "./comparing";
import { comparison } from "./compareWords";
import { limitValue } from "./limits";

const route = getRouteApi("/runs/compare");
const OFFERED = 12;
const LONG = 300; // characters from which a value scrolls by itself

type Side = "one" | "other";
const SIDES: readonly Side[] = ["one", "other"];

export function ComparePage() {
  const t = useText(comparison);
  const search = route.useSearch();
  const one = useQuery({ ...runQuery(search.one ?? ""), enabled: search.one !== undefined });
  const other = useQuery({ ...runQuery(search.other ?? ""), enabled: search.other !== undefined });
  const queries = { one, other };
  const skill = one.data?.skill ?? other.data?.skill;
  const missing = SIDES.find((side) => search[side] === undefined);
  return (
    <Page title={t.title} lead={t.lead} width="wide">
      <Stack gap="md">
        <div className={classes.sides}>
          {SIDES.map((side) =>
            search[side] === undefined ? null : (
              <Section key={side} title={t.sides[side]} actions={<Another side={side} />}>
                <Loaded query={queries[side]} skeleton={<RunPlace />}>
                  {(run) => (
                    <div className={classes.rows}>
                      <RunRow run={run} brief />
                    </div>
                  )}
                </Loaded>
              </Section>
            ),
          )}
        </div>
        {missing && <Choose key={missing} side={missing} skill={skill} name={one.data?.skill_name ?? other.data?.skill_name} />}
        {!missing && one.data && other.data && <Compared one={one.data} other={other.data} />}
        {!missing && (one.isPending || other.isPending) && <Skeleton h={480} />}
      </Stack>
    </Page>
  );
}

function useChoose() {
  const navigate = route.useNavigate();
  return (change: CompareSearch) => void navigate({ search: (before) => ({ ...before, ...change }), resetScroll: false });
}

function Another({ side }: { side: Side }) {
  const t = useText(comparison);
  const choose = useChoose();
  return (
    <Button size="xs" variant="default" onClick={() => choose({ [side]: undefined })} aria-label={`${t.another}: ${t.sides[side]}`}>
      {t.another}
    </Button>
  );
}

/** A list of the newest runs to choose from, of the skill of the other one where that is known. */
function Choose({ side, skill, name }: { side: Side; skill: string | undefined; name: string | undefined }) {
  const t = useText(comparison);
  const search = route.useSearch();
  const choose = useChoose();
  const [every, setEvery] = useState(false);
  const [typed, setTyped] = useState("");
  const chosen = search[side === "one" ? "other" : "one"];
  const query = useQuery(newestRunsQuery(every ? {} : { skill }, OFFERED + 1));
  return (
    <Section title={t.choose[side]} actions={skill && <Switch size="xs" label={t.every} checked={every} onChange={({ currentTarget: { checked } }) => setEvery(checked)} />}>
      <Text size="sm" c="dimmed" mt={-6} mb="sm">
        {name !== undefined && !every ? t.chooseWhy(visible(name)) : t.chooseAny}
      </Text>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (typed.trim()) choose({ [side]: typed.trim() });
        }}
      >
        <Group gap="xs" mb="sm" maw={480}>
          <TextInput flex={1} aria-label={t.id} placeholder="run_…" value={typed} onChange={({ currentTarget: { value } }) => setTyped(value)} />
          <Button type="submit" variant="default" disabled={!typed.trim()}>
            {t.take}
          </Button>
        </Group>
      </form>
      <Loaded query={query} skeleton={<RunPlace />}>
        {({ data }) => {
          const others = data.filter(({ run_id }) => run_id !== chosen).slice(0, OFFERED);
          return others.length === 0 ? (
            <Empty>{t.none}</Empty>
          ) : (
            <ul className={classes.rows}>
              {others.map((run) => (
                <li key={run.run_id}>
                  <RunRow run={run} to={{ to: "/runs/compare", search: { ...search, [side]: run.run_id } }} />
                </li>
              ))}
            </ul>
          );
        }}
      </Loaded>
    </Section>
  );
}

interface Two {
  one: RunDetail;
  other: RunDetail;
}

function Compared({ one, other }: Two) {
  const t = useText(comparison);
  const r = useText(runs);
  const format = useFormat();
  const search = route.useSearch();
  const choose = useChoose();
  const only = search.different === true;
  const held = ({ limits }: RunDetail) =>
    Object.fromEntries(
      limits.map(({ name, value, enforced }) => {
        const text = limitValue(name, value, format);
        return [r.limitNames[name] ?? name, enforced ? text : t.notEnforced(text)];
      }),
    );
  return (
    <Stack gap="md">
      <Group justify="space-between">
        <Switch label={t.different} checked={only} onChange={({ currentTarget: { checked } }) => choose({ different: checked || undefined })} />
        <Button variant="default" size="xs" leftSection={<IconArrowsLeftRight size={14} />} onClick={() => choose({ one: search.other, other: search.one })}>
          {t.swap}
        </Button>
      </Group>
      <Pairs title={t.facts} found={useFacts(one, other)} only={only} />
      <Pairs title={r.input} found={pairs(one.parameters, other.parameters)} only={only} code />
      <Pairs title={r.output} found={pairs(one.output, other.output)} only={only} code />
      <Pairs title={r.limits} found={pairs(held(one), held(other))} only={only} />
      <Pairs title={t.logs} found={logs(one, other, r.stdout, r.stderr)} only={only} code />
    </Stack>
  );
}

function logs(one: RunDetail, other: RunDetail, stdout: string, stderr: string): Pair[] {
  return [
    { name: stdout, one: one.stdout || undefined, other: other.stdout || undefined },
    { name: stderr, one: one.stderr || undefined, other: other.stderr || undefined },
  ].filter((pair) => pair.one !== undefined || pair.other !== undefined);
}

/** A fact that is empty is none. */
const said = (fact: string | null | undefined): string | undefined => (fact === "" ? undefined : (fact ?? undefined));

function useFacts(one: RunDetail, other: RunDetail): Pair[] {
  const t = useText(comparison);
  const r = useText(runs);
  const format = useFormat();
  const two = (name: string, read: (run: RunDetail) => string | null | undefined): Pair => ({ name, one: said(read(one)), other: said(read(other)) });
  const took = two(r.facts.took, ({ duration_ms }) => (duration_ms === null ? null : format.duration(duration_ms)));
  if (one.duration_ms !== null && other.duration_ms !== null && one.duration_ms !== other.duration_ms) {
    const [compared, by] = [other.duration_ms > one.duration_ms ? t.longer : t.shorter, Math.abs(other.duration_ms - one.duration_ms)];
    took.other = `${took.other} (${compared(format.duration(by))})`;
  }
  return [
    two(t.state, ({ state }) => r.states[state]),
    two(t.error, ({ error }) => error && `${error.code}${error.message ? `: ${error.message}` : ""}`),
    two(r.exitCode, ({ exit_code }) => (exit_code === null ? null : String(exit_code))),
    took,
    two(r.usedMemory, ({ memory_usage }) => (memory_usage === null ? null : format.bytes(memory_usage))),
    two(r.tokens, ({ token_usage }) => (token_usage === null ? null : JSON.stringify(token_usage))),
    two(r.facts.version, ({ version }) => version),
    two(r.facts.digest, ({ digest }) => digest?.slice(0, 19)),
    two(r.facts.entry, ({ entry }) => entry),
    two(r.commandLine, (run) => run.arguments.join(" ")),
    two(r.packages, ({ packages }) => packages.join(", ")),
    two(r.facts.asked, ({ created_at }) => format.time(created_at)),
    two(r.facts.caller, ({ caller }) => caller && callerName(caller)),
    two(r.facts.interface, (run) => run.interface && (r.interfaces[run.interface] ?? run.interface)),
    two(r.facts.agent, ({ agent }) => agent),
    two(r.ofSchedule, ({ schedule }) => schedule),
    two(r.facts.kind, ({ ran_as, kind }) => ran_as ?? kind),
    two(r.facts.isolation, ({ isolation }) => isolation),
    two(r.facts.interpreter, ({ interpreter }) => interpreter),
  ].filter((pair) => pair.one !== undefined || pair.other !== undefined);
}

interface Lines {
  title: string;
  found: readonly Pair[];
  /** Only what is different. */
  only: boolean;
  code?: boolean;
}

function Pairs({ title, found, only, code = false }: Lines) {
  const t = useText(comparison);
  const different = found.filter(differs).length;
  const shown = only ? found.filter(differs) : found;
  if (shown.length === 0) return <Section title={title} empty={found.length === 0 ? t.nothing : t.same} />;
  return (
    <Section title={title} lead={t.counted(different)}>
      <table className={classes.table}>
        <thead>
          <tr>
            <th scope="col">
              <span className={classes.hidden}>{t.what}</span>
            </th>
            {SIDES.map((side) => (
              <th key={side} scope="col">
                {t.sides[side]}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.map((pair) => (
            <tr key={pair.name} data-different={differs(pair) || undefined}>
              <th scope="row">
                <bdi className={code ? classes.code : undefined}>{visible(pair.name || t.whole)}</bdi>
                {differs(pair) && <span className={classes.hidden}>({t.differs})</span>}
              </th>
              {SIDES.map((side) => (
                <td key={side}>
                  <Side text={pair[side]} code={code} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </Section>
  );
}

function Side({ text, code }: { text: string | undefined; code: boolean }) {
  const t = useText(comparison);
  if (text === undefined)
    return (
      <Text span inherit c="dimmed">
        {t.lacking}
      </Text>
    );
  return (
    <div className={code ? `${classes.value} ${classes.code}` : classes.value} {...(text.length > LONG ? { tabIndex: 0 } : {})}>
      <bdi>{visible(text)}</bdi>
    </div>
  );
}

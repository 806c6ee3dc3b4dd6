/** Two versions side by side: what they cost to read, how their runs went, what they may do, and each file that is different. */
import { Alert, Box, Group, NativeSelect, SimpleGrid, Skeleton, Stack, Text, Title } from "@mantine/core";
import { IconShieldExclamation } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { lazy, type ReactNode, Suspense } from "react";

import { fetched } from "@/api/parts";
import { daysAgo, type Figures, insightsQuery } from "@/api/insights";
import { useMay } from "@/api/scopes";
import { differenceQuery, type Effect, type Version, type VersionContent } from "@/api/versions";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { Difference } from "@/parts/Difference";
import { failedShare } from "@/parts/figures";
import { visible } from "@/parts/foreign";
import { AnchorLink } from "@/parts/links";
import { Loaded } from "@/parts/Loaded";
import { PowerList } from "@/parts/PowerList";
import { PowerSentence } from "@/parts/PowerSentence";
import { Empty, Section } from "@/parts/Section";

import classes from "./Compare.module.css";
import { canServe, Serve, versionName } from "./Serve";
import { versions as table } from "./versionWords";

const Playground = lazy(() => fetched(import("./Playground")));

const route = getRouteApi("/skills/$id");
const DAYS = 90;

export function Compare({ id, versions }: { id: string; versions: readonly Version[] }) {
  const t = useText(table);
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const writes = useMay("skills:write");
  const known = (name: string | undefined) => versions.find(({ version }) => version === name)?.version;
  const after = known(search.after) ?? versions.find(({ current }) => current)?.version ?? versions[0]?.version ?? "";
  const others = versions.filter(({ version }) => version !== after);
  const before = known(search.before) ?? (others.find(({ current }) => current) ?? others[0])?.version ?? "";
  if (versions.length < 2) return null;
  const choose = (change: { before?: string; after?: string }) => void navigate({ search: (was) => ({ ...was, tab: "versions", before, after, ...change }), replace: true, resetScroll: false });
  const options = versions.map(({ version, declared_version }) => ({ value: version, label: declared_version ? `${visible(declared_version)} · ${version}` : version }));
  return (
    <Section title={t.compare}>
      <Text size="sm" c="dimmed" mt={-8} mb="sm" maw={680}>
        {t.compareWhy}
      </Text>
      <Group gap="sm" mb="lg" align="flex-end">
        <NativeSelect size="sm" label={t.before} data={options} value={before} onChange={(event) => choose({ before: event.currentTarget.value })} />
        <NativeSelect size="sm" label={t.after} data={options} value={after} onChange={(event) => choose({ after: event.currentTarget.value })} />
        {writes &&
          versions
            .filter((one) => canServe(one) && (one.version === before || one.version === after))
            .map((one) => <Serve key={one.version} id={id} version={one} label={t.serveThis(versionName(one))} />)}
      </Group>
      <Compared id={id} before={before} after={after} />
    </Section>
  );
}

function Compared({ id, before, after }: { id: string; before: string; after: string }) {
  const t = useText(table);
  const query = useQuery(differenceQuery(id, before, after));
  return (
    <Loaded query={query} skeleton={<Skeleton h={900} />}>
      {(found) => {
        const counted = (kind: string) => found.files.filter(({ change }) => change === kind).length;
        return (
          <Stack gap="lg">
            <Content before={found.before} after={found.after} files={t.fileChanges(counted("added"), counted("removed"), counted("changed"))} />
            <Live id={`installed:${id}`} before={found.before} after={found.after} />
            <Suspense>
              <Playground key={`${before} ${after}`} id={`installed:${id}`} before={found.before} after={found.after} />
            </Suspense>
            <Powers before={found.before} after={found.after} widened={found.widened} narrowed={found.narrowed} />
            {found.added_effects && found.removed_effects && (
              <Watched added={found.added_effects} removed={found.removed_effects} />
            )}
            <Box>
              <Title order={3} size="h3" mb="xs">
                {t.lines}
              </Title>
              <Difference key={`${before} ${after}`} difference={found} />
            </Box>
          </Stack>
        );
      }}
    </Loaded>
  );
}

/** A line of the table: its name, a value for each version, and whether more of it is good, bad or neither. */
interface Line {
  name: string;
  values: readonly [number | undefined, number | undefined];
  says: (value: number) => string;
  more: "good" | "bad" | "neither";
  /** Differences are said as such, not as a share: those of shares, and of few. */
  absolute?: boolean;
}

function Lines({ before, after, lines, children }: { before: VersionContent; after: VersionContent; lines: readonly Line[]; children?: ReactNode }) {
  const t = useText(table);
  const named = ({ version, declared_version }: VersionContent) => visible(declared_version ?? version);
  return (
    <div className={classes.scroll} tabIndex={0}>
      <table className={classes.table}>
        <thead>
          <tr>
            <td />
            <th scope="col">
              <bdi>{named(before)}</bdi>
            </th>
            <th scope="col">
              <bdi>{named(after)}</bdi>
            </th>
            <th scope="col">{t.change}</th>
          </tr>
        </thead>
        <tbody>
          {lines.map(({ name, values: [old, now], says, more, absolute }) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td>{old === undefined ? "–" : says(old)}</td>
              <td>{now === undefined ? "–" : says(now)}</td>
              <td>
                <Change old={old} now={now} more={more} says={says} absolute={absolute ?? false} />
              </td>
            </tr>
          ))}
          {children}
        </tbody>
      </table>
    </div>
  );
}

function Change({ old, now, more, says, absolute }: { old: number | undefined; now: number | undefined; more: Line["more"]; says: Line["says"]; absolute: boolean }) {
  const format = useFormat();
  if (old === undefined || now === undefined || old === now) return <>{old === undefined || now === undefined ? "" : "="}</>;
  const sign = now > old ? "+" : "−";
  const [by, share] = [Math.abs(now - old), Math.abs(now - old) / old];
  const size = absolute || old === 0 || share < 0.005 ? says(by) : format.share(share);
  const good = more === "neither" ? undefined : now > old === (more === "good");
  return (
    <span className={classes.change} data-good={good}>
      {sign}
      {size}
    </span>
  );
}

interface Two {
  before: VersionContent;
  after: VersionContent;
}

function Content({ before, after, files }: Two & { files: string }) {
  const t = useText(table);
  const format = useFormat();
  const tokens = (value: number) => t.tokens(format.number(value));
  const both = (read: (one: VersionContent) => number | null): Line["values"] => [read(before) ?? undefined, read(after) ?? undefined];
  return (
    <Lines
      before={before}
      after={after}
      lines={[
        { name: t.facts.description, values: both(({ description_tokens }) => description_tokens), says: tokens, more: "bad" },
        { name: t.facts.instructions, values: both(({ instruction_tokens }) => instruction_tokens), says: tokens, more: "bad" },
        { name: t.facts.size, values: both(({ size_bytes }) => size_bytes), says: format.bytes, more: "neither" },
      ]}
    >
      <tr>
        <th scope="row">{t.facts.files}</th>
        <td colSpan={3} className={classes.across}>
          {files}
        </td>
      </tr>
    </Lines>
  );
}

function Live({ id, before, after }: Two & { id: string }) {
  const t = useText(table);
  const format = useFormat();
  const query = useQuery(insightsQuery({ by: "version", since: daysAgo(DAYS - 1), until: daysAgo(0), skill: id, limit: 1000 }));
  const versionsDiffer = before.declared_version !== null && after.declared_version !== null && before.declared_version !== after.declared_version;
  return (
    <Box>
      <Group justify="space-between" mb="xs">
        <Title order={3} size="h3">
          {t.live}
        </Title>
        <AnchorLink to="/insights" search={{ by: "version", days: DAYS, skill: id }} size="sm">
          {t.allRuns}
        </AnchorLink>
      </Group>
      {versionsDiffer ? (
        <Loaded query={query} skeleton={<Skeleton h={180} />}>
          {({ rows }) => {
            const of = ({ declared_version }: VersionContent) => rows.find(({ key }) => key === declared_version)?.figures;
            const [old, now] = [of(before), of(after)];
            if (!old && !now) return <Empty>{t.liveNone}</Empty>;
            const both = (read: (one: Figures) => number | null | undefined): Line["values"] => [old && (read(old) ?? undefined), now && (read(now) ?? undefined)];
            return (
              <Lines
                before={before}
                after={after}
                lines={[
                  { name: t.facts.runs, values: both(({ runs }) => runs), says: format.number, more: "neither", absolute: true },
                  { name: t.facts.rate, values: both(succeeded), says: format.share, more: "good", absolute: true },
                  { name: t.facts.p50, values: both(({ p50_ms }) => p50_ms), says: format.duration, more: "bad" },
                  { name: t.facts.p95, values: both(({ p95_ms }) => p95_ms), says: format.duration, more: "bad" },
                  { name: t.facts.refused, values: both(({ refused }) => refused), says: format.number, more: "bad", absolute: true },
                ]}
              />
            );
          }}
        </Loaded>
      ) : (
        <Empty>{t.liveSame}</Empty>
      )}
    </Box>
  );
}

function succeeded(figures: Figures): number | undefined {
  const failed = failedShare(figures);
  return failed === undefined ? undefined : 1 - failed;
}

function Powers({ before, after, widened, narrowed }: Two & { widened: readonly string[]; narrowed: readonly string[] }) {
  const t = useText(table);
  return (
    <Box>
      <Title order={3} size="h3" mb="xs">
        {t.powers}
      </Title>
      {widened.length > 0 ? (
        <Alert color="orange" icon={<IconShieldExclamation size={20} />} title={t.widened(widened.length)} mb="sm">
          {widened.map((sentence) => (
            <Text key={sentence} size="sm" style={{ overflowWrap: "anywhere" }}>
              <PowerSentence>{sentence}</PowerSentence>
            </Text>
          ))}
        </Alert>
      ) : (
        before.powers &&
        after.powers && (
          <Text size="sm" mb="sm">
            {t.notWidened}
          </Text>
        )
      )}
      {narrowed.length > 0 && (
        <Alert color="gray" title={t.narrowed(narrowed.length)} mb="sm">
          {narrowed.map((sentence) => (
            <Text key={sentence} size="sm" style={{ overflowWrap: "anywhere" }}>
              <PowerSentence>{sentence}</PowerSentence>
            </Text>
          ))}
        </Alert>
      )}
      <SimpleGrid cols={{ base: 1, sm: 2 }} spacing="xl">
        {[before, after].map((one) => (
          <Box key={one.version} miw={0}>
            <Text size="sm" fw={600} mb={4}>
              <bdi>{visible(one.declared_version ?? one.version)}</bdi>
            </Text>
            {one.powers ? <PowerList powers={one.powers} before={one === after ? before.powers : undefined} stacked /> : <Empty>{t.unreadable}</Empty>}
          </Box>
        ))}
      </SimpleGrid>
    </Box>
  );
}

function Watched({ added, removed }: { added: readonly Effect[]; removed: readonly Effect[] }) {
  const t = useText(table);
  return (
    <Box>
      <Title order={3} size="h3" mb="xs">
        {t.watched}
      </Title>
      {added.length + removed.length === 0 && <Text size="sm">{t.watchedSame}</Text>}
      {[
        { title: t.came, effects: added, color: "orange" },
        { title: t.went, effects: removed, color: "gray" },
      ].map(
        ({ title, effects, color }) =>
          effects.length > 0 && (
            <Alert key={title} color={color} title={title} mb="sm">
              {effects.map(({ rule, by, target }) => (
                <Text key={`${rule} ${by} ${target}`} size="sm" style={{ overflowWrap: "anywhere" }}>
                  {rule}: <bdi>{visible(target)}</bdi> (<bdi>{visible(by)}</bdi>)
                </Text>
              ))}
            </Alert>
          ),
      )}
    </Box>
  );
}

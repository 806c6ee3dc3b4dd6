/** One skill: what it says, holds, may do, which versions it has, who can load it, and a form to run it. */
import { Alert, Badge, Skeleton, Stack, Tabs, Text, Tooltip } from "@mantine/core";
import { IconBook, IconChecklist, IconDevices, IconFiles, IconHistory, IconLayoutDashboard, IconPackageOff, IconPlayerPlay, IconShield, IconTargetArrow, type Icon } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { lazy, type ReactNode, Suspense, useEffect, useRef } from "react";

import { fetched } from "@/api/parts";
import { asProblem } from "@/api/problem";
import { useMay } from "@/api/scopes";
import { installedId, scanQuery, type SkillDetail, skillQuery } from "@/api/skills";
import { versionsQuery } from "@/api/versions";
import { useText } from "@/i18n";
import { catalog } from "@/pages/catalog/words";
import { BackLink } from "@/parts/BackLink";
import { BadgeLink } from "@/parts/links";
import { Loaded } from "@/parts/Loaded";
import { Page } from "@/parts/Page";
import { GRAVITY, ScanBadge } from "@/parts/ScanBadge";
import { scanned } from "@/parts/scanWords";
import { AsksBadge, StateBadge } from "@/parts/StateBadge";
import { visible } from "@/parts/foreign";
import { sentence } from "@/parts/sentence";
import { WithCode } from "@/parts/WithCode";
import { WithdrawalBadge } from "@/parts/WithdrawalBadge";

import { Actions } from "./Actions";
import { Approval } from "./Approval";
import classes from "./SkillPage.module.css";
import { skill as table } from "./words";

const Overview = lazy(() => fetched(import("./Overview")));
const About = lazy(() => fetched(import("./About")));
const Files = lazy(() => fetched(import("./Files")));
const Run = lazy(() => fetched(import("./Run")));
const Tests = lazy(() => fetched(import("./Tests")));
const Triggers = lazy(() => fetched(import("./Triggers")));
const Versions = lazy(() => fetched(import("./Versions")));
const Safety = lazy(() => fetched(import("./Safety")));
const Clients = lazy(() => fetched(import("./Clients")));

const route = getRouteApi("/skills/$id");

export function SkillPage() {
  const { id } = route.useParams();
  const detail = useQuery(skillQuery(id));
  const problem = detail.error && asProblem(detail.error);
  const known = installedId(id);
  if (problem?.code === "skill_not_found" && known) return <Uninstalled id={known} />;
  return (
    <Loaded query={detail} skeleton={<PageSkeleton id={id} />} frame={(failed) => <Unknown id={id}>{failed}</Unknown>}>
      {(skill) => <OneSkill skill={skill} />}
    </Loaded>
  );
}

function OneSkill({ skill }: { skill: SkillDetail }) {
  const t = useText(table);
  const { tab } = route.useSearch();
  const navigate = route.useNavigate();
  const known = installedId(skill.id);
  const verdict = useVerdict(skill);
  const runs = useMay("runs:execute") && skill.run.possible;
  const tabs: [keyof typeof t.tabs, Icon, ReactNode, number?][] = [
    ["overview", IconLayoutDashboard, <Overview skill={skill} key="overview" />],
    ["about", IconBook, <About skill={skill} key="about" />],
    ["files", IconFiles, <Files skill={skill} key="files" />, skill.files.length + 1],
    ...(runs ? ([["run", IconPlayerPlay, <Run skill={skill} key="run" />]] as const) : []),
    ...(skill.status === "ok" || tab === "tests" ? ([["tests", IconChecklist, <Tests skill={skill} key="tests" />]] as const) : []),
    ...(skill.status === "ok" || tab === "triggers" ? ([["triggers", IconTargetArrow, <Triggers skill={skill} key="triggers" />]] as const) : []),
    ...(known ? ([["versions", IconHistory, <Versions id={known} key="versions" />]] as const) : []),
    ["clients", IconDevices, <Clients skill={skill} key="clients" />],
    // last, because its number comes later than the others and would move what stands behind it
    ["safety", IconShield, <Safety skill={skill} key="safety" />, verdict && verdict.findings > 0 ? verdict.findings : undefined],
  ] as [keyof typeof t.tabs, Icon, ReactNode, number?][];
  const shown = tabs.find(([name]) => name === tab)?.[0] ?? "overview";
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    // On a phone the tabs are wider than the screen: the chosen one is brought into sight.
    const all = list.current;
    const one = all?.querySelector<HTMLElement>("[aria-selected=true]");
    if (!all || !one) return;
    const watching = new ResizeObserver(() => (all.scrollLeft = one.offsetLeft - all.offsetLeft - (all.clientWidth - one.offsetWidth) / 2));
    watching.observe(all);
    return () => watching.disconnect();
  }, [shown]);
  return (
    <Frame skill={skill} whole={shown === "overview"}>
      <Tabs
        value={shown}
        onChange={(value) => void navigate({ search: value === "overview" || !value ? {} : { tab: value }, replace: true, resetScroll: false })}
        classNames={{ list: classes.tabs }}
      >
        <Tabs.List mb="lg" ref={list}>
          {tabs.map(([name, Icon, , count]) => (
            <Tabs.Tab
              key={name}
              value={name}
              leftSection={<Icon size={16} stroke={1.7} />}
              rightSection={
                count !== undefined && (
                  <Badge size="xs" color={name === "safety" ? (GRAVITY[verdict?.worst ?? ""] ?? "gray") : "gray"} circle={count < 10}>
                    {count}
                  </Badge>
                )
              }
            >
              {t.tabs[name]}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        {tabs.map(([name, , content]) => (
          <Tabs.Panel key={name} value={name}>
            <Suspense fallback={<TextSkeleton />}>{content}</Suspense>
          </Tabs.Panel>
        ))}
      </Tabs>
    </Frame>
  );
}

/** The head of the page; `whole` shows the description to its end. */
function Frame({ skill, whole, children }: { skill: SkillDetail; whole: boolean; children: ReactNode }) {
  const t = useText(table);
  const c = useText(catalog);
  const s = useText(scanned);
  const name = visible(skill.display_name ?? skill.name) || skill.id;
  const verdict = useVerdict(skill);
  return (
    <Page
      title={name}
      back={<Back />}
      marks={
        <>
          <StateBadge status={skill.status} />
          {skill.withdrawal && <WithdrawalBadge withdrawal={skill.withdrawal} why={skill.withdrawn} />}
          {skill.requires_approval && <AsksBadge />}
          {skill.status === "ok" && skill.run.possible && skill.environment.items.some(({ state }) => state === "proposed") && (
            <Tooltip label={t.needsGrantsWhy}>
              <BadgeLink color="yellow" to="/skills/$id" params={{ id: skill.id }} search={{ tab: "safety" }} leftSection={<IconPackageOff size={13} />}>
                {t.needsGrants}
              </BadgeLink>
            </Tooltip>
          )}
          {verdict ? (
            <Link to="/skills/$id" params={{ id: skill.id }} search={{ tab: "safety" }} className={classes.verdict ?? ""}>
              <ScanBadge {...verdict} />
            </Link>
          ) : (
            <span aria-hidden style={{ visibility: "hidden" }}>
              <ScanBadge worst={null} findings={0} />
            </span>
          )}
          <Badge color="gray">{c.sources[skill.source]}</Badge>
          {skill.version && (
            <Text component="span" ff="monospace" size="sm" c="dimmed" truncate maw={160}>
              {visible(skill.version)}
            </Text>
          )}
        </>
      }
      lead={
        <Stack gap={2}>
          {skill.display_name && (
            <Text span ff="monospace" size="sm">
              {visible(skill.name)}
            </Text>
          )}
          <Text span inherit lineClamp={whole ? undefined : 4} style={{ overflowWrap: "anywhere" }}>
            <bdi>{visible(skill.description) || c.noDescription}</bdi>
          </Text>
        </Stack>
      }
      actions={<Actions skill={skill} />}
    >
      {skill.status !== "ok" && (
        <Alert variant="light" color={skill.status === "disabled" ? "gray" : skill.status === "shadowed" ? "yellow" : "red"} mb="lg" title={t.notOffered[skill.status]}>
          <WithCode>{skill.reason ?? ""}</WithCode>
        </Alert>
      )}
      {skill.withdrawal && (
        <Alert variant="light" color={skill.withdrawal === "deprecated" ? "yellow" : "red"} mb="lg" title={s.withdrawnTitle[skill.withdrawal]}>
          <bdi>
            <WithCode>{sentence(visible(skill.withdrawn ?? ""))}</WithCode>
          </bdi>
        </Alert>
      )}
      {skill.requires_approval && <Approval skill={skill} />}
      {children}
    </Page>
  );
}

/** What the scanner says, as soon as it is known. */
function useVerdict({ id }: SkillDetail): { worst: string | null; findings: number } | undefined {
  const report = useQuery(scanQuery(id)).data;
  return report && { worst: report.worst, findings: report.findings.filter(({ allowed }) => !allowed).length };
}

/** A skill that was uninstalled: only its versions are left to look at. */
function Uninstalled({ id }: { id: string }) {
  const t = useText(table);
  const serves = useQuery(versionsQuery(id)).data?.some(({ current }) => current);
  return (
    <Page title={id} back={<Back />}>
      <Alert variant="light" color="gray" title={serves ? t.elsewhere : t.gone} mb="lg">
        {serves ? t.elsewhereHint : t.goneHint}
      </Alert>
      <Suspense fallback={<TextSkeleton />}>
        <Versions id={id} />
      </Suspense>
    </Page>
  );
}

/** A skill that cannot be shown: what was wanted, why not, and the way to those that can. */
function Unknown({ id, children }: { id: string; children: ReactNode }) {
  return (
    <Page title={visible(id)} back={<Back />}>
      {children}
    </Page>
  );
}

function Back() {
  const t = useText(table);
  return <BackLink to="/skills">{t.all}</BackLink>;
}

function PageSkeleton({ id }: { id: string }) {
  return (
    <Page back={<Back />} title={id.slice(id.indexOf(":") + 1)} lead={<Skeleton h={14} w="70%" mt={6} />}>
      <Skeleton h={36} mb="lg" />
      <TextSkeleton />
    </Page>
  );
}

function TextSkeleton() {
  return (
    <Stack gap="sm" aria-hidden>
      {[38, 92, 86, 95, 60, 90, 82].map((width) => (
        <Skeleton key={width} h={14} w={`${width}%`} />
      ))}
    </Stack>
  );
}

/** Every skill in all conversations: which are never used, which are loaded and not followed, whose runs fail. */
import { Badge, Checkbox, Group, Skeleton, Table, Text, Tooltip } from "@mantine/core";
import { IconChartBar } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { reportQuery, type SkillUse, type TrailReport } from "@/api/chat";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { BackLink } from "@/parts/BackLink";
import { DataTable } from "@/parts/DataTable";
import { EmptyState } from "@/parts/EmptyState";
import { visible } from "@/parts/foreign";
import { AnchorLink } from "@/parts/links";
import { Loaded } from "@/parts/Loaded";
import { Page } from "@/parts/Page";
import { Empty } from "@/parts/Section";

import table from "../insights/InsightsPage.module.css";
import { chat } from "./words";

type Verdict = "never_used" | "not_followed" | "fails_often";
const VERDICTS: readonly [Verdict, string][] = [
  ["fails_often", "red"],
  ["not_followed", "yellow"],
  ["never_used", "gray"],
];

const NUMBERS = ["offered", "loaded", "read", "run", "failed", "tokens", "took"] as const;

const verdictsOn = (report: TrailReport, id: string) => VERDICTS.filter(([name]) => report[name].includes(id));

export function ReportPage() {
  const t = useText(chat);
  const query = useQuery(reportQuery());
  return (
    <Page title={t.report.title} back={<BackLink to="/chat">{t.report.back}</BackLink>} lead={t.report.lead}>
      <Loaded query={query} skeleton={<Skeleton h={320} />}>
        {(report) => (report.skills.length ? <Report report={report} /> : <EmptyState icon={IconChartBar} title={t.report.empty} />)}
      </Loaded>
    </Page>
  );
}

function Report({ report }: { report: TrailReport }) {
  const t = useText(chat);
  const [only, setOnly] = useState(false);
  const skills = report.skills.filter(({ skill_id }) => !only || verdictsOn(report, skill_id).length > 0);
  const sorted = [...skills].sort((one, two) => two.loaded - one.loaded || two.run - one.run || two.offered - one.offered);
  return (
    <>
      <Checkbox mb="md" label={t.report.only} checked={only} onChange={({ currentTarget }) => setOnly(currentTarget.checked)} />
      {sorted.length === 0 && <Empty>{t.report.fine}</Empty>}
      {sorted.length > 0 && (
        <DataTable minWidth={760} dense columns={[t.report.skill, ...NUMBERS.map((name) => ({ name: t.report[name], right: true })), t.report.verdict]}>
          {sorted.map((use) => (
            <Use key={use.skill_id} use={use} report={report} />
          ))}
        </DataTable>
      )}
    </>
  );
}

function Use({ use, report }: { use: SkillUse; report: TrailReport }) {
  const t = useText(chat);
  const format = useFormat();
  const { skill_id: id, offered, loaded, read, run, failed, tokens, duration_ms } = use;
  return (
    <Table.Tr>
      <Table.Td className={table.name ?? ""}>
        <AnchorLink to="/skills/$id" params={{ id }} size="sm" fw={560}>
          <bdi>{visible(id.replace(/^[\w-]+:/, ""))}</bdi>
        </AnchorLink>
      </Table.Td>
      {([["offered", offered], ["loaded", loaded], ["read", read], ["run", run], ["failed", failed], ["tokens", tokens]] as const).map(([name, count]) => (
        <Table.Td key={name} ta="right">
          {count ? <Count name={name} count={format.number(count)} id={id} /> : <Text span c="dimmed" inherit>–</Text>}
        </Table.Td>
      ))}
      <Table.Td ta="right" style={{ whiteSpace: "nowrap" }}>{duration_ms ? format.duration(duration_ms) : <Text span c="dimmed" inherit>–</Text>}</Table.Td>
      <Table.Td>
        <Group gap={6}>
          {verdictsOn(report, id).map(([name, color]) => (
            <Tooltip key={name} label={t.report.hints[name]}>
              <Badge color={color} tabIndex={0}>
                {t.report[name]}
              </Badge>
            </Tooltip>
          ))}
        </Group>
      </Table.Td>
    </Table.Tr>
  );
}

/** A figure with the way to what it counts: turns, or the runs of chats. */
function Count({ name, count, id }: { name: "offered" | "loaded" | "read" | "run" | "failed" | "tokens"; count: string; id: string }) {
  const t = useText(chat);
  const label = `${count} · ${t.report[name]} · ${visible(id.replace(/^[\w-]+:/, ""))}`;
  if (name === "tokens") return count;
  if (name === "run" || name === "failed")
    return (
      <AnchorLink to="/runs" search={{ skill: id, interface: "chat", ...(name === "failed" ? { state: "failed" } : {}) }} size="sm" aria-label={label}>
        {count}
      </AnchorLink>
    );
  return (
    <AnchorLink to="/chat/turns" search={{ skill: id, stage: name === "read" ? "followed" : name }} size="sm" aria-label={label}>
      {count}
    </AnchorLink>
  );
}

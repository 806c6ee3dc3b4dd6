/** What waits for an answer, and what was agreed to. */
import { Button, Code, Skeleton, Stack, Table, Text } from "@mantine/core";
import { IconChecks } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { type Approval, approvalsQuery, questionsQuery, revokeApproval } from "@/api/approvals";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { DataTable } from "@/parts/DataTable";
import { EmptyState } from "@/parts/EmptyState";
import { visible } from "@/parts/foreign";
import { AnchorLink } from "@/parts/links";
import { Loaded } from "@/parts/Loaded";
import { Page } from "@/parts/Page";
import { Section } from "@/parts/Section";
import { TakeBack } from "@/parts/TakeBack";

import { Question } from "./Question";
import { approvals } from "./words";

export function ApprovalsPage() {
  const t = useText(approvals);
  const questions = useQuery(questionsQuery());
  const kept = useQuery(approvalsQuery());
  return (
    <Page title={t.title} lead={t.lead}>
      <Stack gap="lg">
        <Loaded query={questions} skeleton={<Skeleton h={190} />}>
          {(open) =>
            open.length ? (
              <Stack gap="sm" role="region" aria-label={t.open}>
                {open.map((question) => (
                  <Question key={question.id} question={question} />
                ))}
              </Stack>
            ) : (
              <EmptyState icon={IconChecks} title={t.none} hint={t.noneHint} />
            )
          }
        </Loaded>
        <Loaded query={kept} skeleton={<Skeleton h={52} />}>
          {(agreed) => (
            <Section title={t.kept} empty={!agreed.length && t.keptNone}>
              <Kept agreed={agreed} />
            </Section>
          )}
        </Loaded>
      </Stack>
    </Page>
  );
}

function Kept({ agreed }: { agreed: readonly Approval[] }) {
  const t = useText(approvals);
  const format = useFormat();
  const [chosen, setChosen] = useState<Approval>();
  return (
    <>
      <DataTable minWidth={560} columns={[t.skill, t.content, t.when, ""]}>
        {agreed.map((approval) => (
          <Table.Tr key={`${approval.skill_id} ${approval.digest}`}>
            <Table.Td>
              <AnchorLink to="/skills/$id" params={{ id: approval.skill_id }} size="sm">
                <bdi>{visible(approval.skill_id)}</bdi>
              </AnchorLink>
            </Table.Td>
            <Table.Td>
              <Code title={approval.digest}>{approval.digest.slice(0, 19)}…</Code>
            </Table.Td>
            <Table.Td>
              <Text size="sm">{format.time(approval.approved_at)}</Text>
            </Table.Td>
            <Table.Td ta="right">
              <Button size="compact-sm" variant="subtle" color="red" onClick={() => setChosen(approval)}>
                {t.revoke}
              </Button>
            </Table.Td>
          </Table.Tr>
        ))}
      </DataTable>
      <TakeBack
        chosen={chosen}
        leave={() => setChosen(undefined)}
        act={({ skill_id }) => revokeApproval(skill_id)}
        stale={approvalsQuery().queryKey}
        title={t.revokeTitle}
        action={t.revoke}
      >
        {({ skill_id }) => t.revokeWhy(visible(skill_id))}
      </TakeBack>
    </>
  );
}

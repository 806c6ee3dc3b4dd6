/** What waits for an answer, and what was agreed to. */
import { Box, Button, Code, Group, Skeleton, Stack, Table, Text } from "@mantine/core";
import { IconChecks, IconMessages } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { type Approval, approvalsQuery, type PendingQuestion, questionsQuery, revokeApproval, waitingVersionsQuery } from "@/api/approvals";
import { type ChatQuestion, chatQuestionsQuery } from "@/api/chat";
import { useMay } from "@/api/scopes";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { Question as ChatQuestionCard } from "@/pages/chat/Question";
import { chat } from "@/pages/chat/words";
import { DataTable } from "@/parts/DataTable";
import { EmptyState } from "@/parts/EmptyState";
import { ErrorState } from "@/parts/ErrorState";
import { visible } from "@/parts/foreign";
import { AnchorLink } from "@/parts/links";
import { Loaded } from "@/parts/Loaded";
import { Page } from "@/parts/Page";
import { Section } from "@/parts/Section";
import { TakeBack } from "@/parts/TakeBack";

import { Question } from "./Question";
import { WaitingVersion } from "./WaitingVersion";
import { approvals } from "./words";

export function ApprovalsPage() {
  const t = useText(approvals);
  const admin = useMay("admin", false);
  const runs = useQuery({ ...questionsQuery(), enabled: admin });
  const talks = useMay("runs:execute", false);
  const chats = useQuery({ ...chatQuestionsQuery(), enabled: talks });
  const refused = !useMay("runs:execute");
  const kept = useQuery({ ...approvalsQuery(), enabled: admin });
  const versions = useQuery({ ...waitingVersionsQuery(), enabled: useMay("skills:approve", false) });
  const asked = [...(runs.data ?? []), ...(chats.data ?? [])].toSorted((one, other) => moment(one).localeCompare(moment(other)));
  const nothing = <EmptyState icon={IconChecks} title={t.none} hint={t.noneHint} />;
  return (
    <Page title={t.title} lead={t.lead}>
      <Stack gap="lg">
        {runs.error && <ErrorState error={runs.error} again={runs.refetch} />}
        {refused ? (
          !versions.data?.length && nothing
        ) : (
          <Loaded query={chats} skeleton={<Skeleton h={190} />}>
            {() =>
              asked.length ? (
                <Stack gap="sm" role="region" aria-label={t.open}>
                  {asked.map((one) => ("turn_id" in one ? <ChatAsked key={`${one.turn_id} ${one.question.digest}`} asked={one} /> : <Question key={one.id} question={one} />))}
                </Stack>
              ) : (
                !versions.data?.length && nothing
              )
            }
          </Loaded>
        )}
        {versions.error && <ErrorState error={versions.error} again={versions.refetch} />}
        {versions.data && versions.data.length > 0 && (
          <Stack gap="sm" role="region" aria-label={t.versions}>
            {versions.data.map((one) => (
              <WaitingVersion key={`${one.skill_id} ${one.digest}`} waiting={one} />
            ))}
          </Stack>
        )}
        {admin && (
          <Loaded query={kept} skeleton={<Skeleton h={52} />}>
            {(agreed) => (
              <Section title={t.kept} empty={!agreed.length && t.keptNone}>
                <Kept agreed={agreed} />
              </Section>
            )}
          </Loaded>
        )}
      </Stack>
    </Page>
  );
}

/** When it began to wait. */
const moment = (one: PendingQuestion | ChatQuestion): string => ("turn_id" in one ? one.since : one.asked_at);

/** A question of a conversation, with the way to it. */
function ChatAsked({ asked }: { asked: ChatQuestion }) {
  const t = useText(approvals);
  const c = useText(chat);
  const format = useFormat();
  const repeats = asked.request.startsWith(asked.conversation_title.replace(/…$/, "")); // a title is made from the first message
  return (
    <Box component="article" aria-label={visible(asked.question.title)}>
      <Group gap={6} mb={6} wrap="nowrap" align="baseline">
        <IconMessages size={15} stroke={1.6} style={{ flex: "none", alignSelf: "center" }} aria-hidden />
        <AnchorLink to="/chat/$id" params={{ id: asked.conversation_id }} size="sm" truncate>
          <bdi>{visible(repeats ? asked.request : asked.conversation_title) || c.untitled}</bdi>
        </AnchorLink>
        <Text size="xs" c="dimmed" style={{ flex: "none" }}>
          <bdi>{[asked.agent && visible(asked.agent), t.since(format.ago(asked.since))].filter(Boolean).join(" · ")}</bdi>
        </Text>
      </Group>
      {!repeats && (
        <Text size="sm" c="dimmed" lineClamp={2} mb={8} style={{ overflowWrap: "anywhere" }}>
          {t.said} <bdi>{visible(asked.request)}</bdi>
        </Text>
      )}
      <ChatQuestionCard turn={{ conversation_id: asked.conversation_id, id: asked.turn_id }} asked={{ question: asked.question, calls: asked.calls.map(({ id }) => id) }} made={asked.calls} />
    </Box>
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

/** That a rule asks before an agent uses a skill; who may approve it does so here, with its instructions before them. */
import { Alert, Button, Code, Stack, Text } from "@mantine/core";
import { IconHelpCircle, IconShieldCheck } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";

import { approvalsQuery, approveContent } from "@/api/approvals";
import { useMay } from "@/api/scopes";
import { type SkillDetail, skillQuery } from "@/api/skills";
import { useText } from "@/i18n";
import { ErrorState } from "@/parts/ErrorState";
import { AnchorLink } from "@/parts/links";
import { notify } from "@/parts/notify";

import { approval } from "./approvalWords";

export function Approval({ skill }: { skill: SkillDetail }) {
  const t = useText(approval);
  const cache = useQueryClient();
  const admin = useMay("admin", false);
  const kept = useQuery({ ...approvalsQuery(), enabled: admin });
  const approving = useMutation({
    mutationFn: () => approveContent(skill.id, skill.digest),
    onSuccess: () => notify({ message: t.done, color: "green" }),
    onSettled: () => Promise.all([cache.invalidateQueries(approvalsQuery()), cache.invalidateQueries(skillQuery(skill.id))]),
  });
  const approved = kept.data?.some(({ skill_id, digest }) => skill_id === skill.id && digest === skill.digest) ?? false;
  const Icon = approved ? IconShieldCheck : IconHelpCircle;
  return (
    <Alert variant="light" color={approved ? "pine" : "yellow"} icon={<Icon size={20} />} title={approved ? t.approved : t.asks} mb="lg">
      <Stack gap="sm" align="flex-start">
        <Text size="sm">{approved ? t.approvedWhy : admin ? t.why : t.whyNot}</Text>
        {approving.error && !approved && <ErrorState error={approving.error} />}
        {approved && (
          <AnchorLink to="/approvals" size="sm">
            {t.look}
          </AnchorLink>
        )}
        {admin && kept.data && !approved && (
          <Button size="xs" leftSection={<IconShieldCheck size={16} />} loading={approving.isPending} onClick={() => approving.mutate()}>
            {t.approve}
          </Button>
        )}
        <Text size="xs" c="dimmed">
          {t.content} <Code title={skill.digest}>{skill.digest.slice(0, 19)}…</Code>
        </Text>
      </Stack>
    </Alert>
  );
}

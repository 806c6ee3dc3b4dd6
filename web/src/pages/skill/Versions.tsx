/** Which versions of a skill there are, which serves, what is different between two, and what was done. */
import { Badge, Box, Button, Code, Group, Skeleton, Stack, Text, Tooltip } from "@mantine/core";
import { IconArrowBackUp, IconSignature } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { asProblem } from "@/api/problem";
import { useMay } from "@/api/scopes";
import { canAgree, type InstallLog, installLogsQuery, rollbackTo, type Version, versionsQuery } from "@/api/versions";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { Confirm } from "@/parts/Confirm";
import { visible } from "@/parts/foreign";
import { Loaded } from "@/parts/Loaded";
import { notify, notifyProblem } from "@/parts/notify";
import { Empty, Section } from "@/parts/Section";

import { Compare } from "./Compare";
import classes from "./Versions.module.css";
import { versions as table } from "./versionWords";

export default function Versions({ id }: { id: string }) {
  const t = useText(table);
  const query = useQuery(versionsQuery(id));
  const logs = useQuery(installLogsQuery(id));
  return (
    <Stack gap="md">
      <Loaded query={query} skeleton={<Skeleton h={900} />}>
        {(found) => (
          <>
            <Section title={t.title} lead={t.why}>
              <Stack gap={0} className={classes.rows}>
                {found.map((version) => (
                  <VersionRow key={version.version} id={id} version={version} />
                ))}
              </Stack>
            </Section>
            <Compare id={id} versions={found.filter(({ removed }) => !removed)} />
          </>
        )}
      </Loaded>
      <Section title={t.log} lead={t.logWhy}>
        <Loaded query={logs} skeleton={<Skeleton h={120} />}>
          {(found) =>
            found.length > 0 ? (
              <Stack gap={0} className={classes.rows}>
                {found.map((log) => (
                  <LogRow key={log.id} log={log} />
                ))}
              </Stack>
            ) : (
              <Empty>{t.noLog}</Empty>
            )
          }
        </Loaded>
      </Section>
    </Stack>
  );
}

function VersionRow({ id, version }: { id: string; version: Version }) {
  const t = useText(table);
  const format = useFormat();
  const writes = useMay("skills:write");
  const notes = [
    version.declared_version && t.declared(visible(version.declared_version)),
    format.bytes(version.size_bytes),
    version.origin.address && t.from(visible(version.origin.address)),
    version.installed_by && t.by(visible(version.installed_by)),
  ].filter(Boolean);
  const state = version.removed ? t.removed : version.yanked ? t.yanked : version.status === "active" ? undefined : (t.states[version.status] ?? version.status);
  return (
    <Group className={classes.row} gap="sm" wrap="nowrap" align="flex-start">
      <Box flex={1} miw={0}>
        <Group gap="xs">
          <Text size="sm" fw={560} ff="monospace">
            {version.version}
          </Text>
          {version.current && <Badge color="pine">{t.serves}</Badge>}
          {!version.current && state && (
            <Tooltip label={version.yanked_reason ?? version.deprecated_reason ?? version.digest}>
              <Badge color={version.yanked || version.status === "failed" ? "red" : "gray"}>{state}</Badge>
            </Tooltip>
          )}
          {version.approval && (
            <Tooltip label={version.approval_reason ?? version.approval_by ?? version.digest}>
              <Badge color={version.approval === "approved" ? "pine" : version.approval === "waiting" ? "yellow" : "red"}>{t.approvals[version.approval]}</Badge>
            </Tooltip>
          )}
          {version.signer && (
            <Tooltip label={version.signer}>
              <Badge color="blue" leftSection={<IconSignature size={13} />}>
                {t.signed}
              </Badge>
            </Tooltip>
          )}
        </Group>
        <Text size="xs" c="dimmed" style={{ overflowWrap: "anywhere" }}>
          {version.installed_at && `${format.time(version.installed_at)} · `}
          <bdi>{notes.join(" · ")}</bdi>
        </Text>
      </Box>
      {writes && !version.current && !version.removed && version.status !== "failed" && version.approval !== "waiting" && <Back id={id} version={version.version} />}
    </Group>
  );
}

function Back({ id, version }: { id: string; version: string }) {
  const t = useText(table);
  const cache = useQueryClient();
  const [asked, setAsked] = useState(false);
  const going = useMutation({
    mutationFn: rollbackTo,
    onSuccess: async () => {
      setAsked(false);
      notify({ message: t.done(version) });
      await cache.invalidateQueries();
    },
    onError: (error, { agreed }) => {
      const { code } = asProblem(error);
      if (!canAgree(code) || agreed.includes(code)) {
        setAsked(false);
        notifyProblem(error);
      }
    },
  });
  const problem = going.error === null ? undefined : asProblem(going.error);
  const code = problem && canAgree(problem.code) ? problem.code : undefined;
  const agreed = [...(going.variables?.agreed ?? []), ...(code ? [code] : [])];
  return (
    <>
      <Button size="compact-sm" variant="default" leftSection={<IconArrowBackUp size={14} />} onClick={() => setAsked(true)}>
        {t.back}
      </Button>
      <Confirm
        opened={asked}
        close={() => {
          setAsked(false);
          going.reset();
        }}
        title={t.backAsk(version)}
        action={code ? t.forceDo : t.back}
        danger={code !== undefined}
        busy={going.isPending}
        act={() => going.mutate({ id, version, agreed })}
      >
        {code ? t.agree[code] : t.backWhy}
        {code && code !== "local_edits" && (
          <Text size="sm" mt="sm" style={{ overflowWrap: "anywhere" }}>
            <bdi>{visible(problem?.message ?? "")}</bdi>
          </Text>
        )}
      </Confirm>
    </>
  );
}

function LogRow({ log }: { log: InstallLog }) {
  const t = useText(table);
  const format = useFormat();
  return (
    <Box className={classes.row}>
      <Group gap="xs">
        <Text size="sm" fw={560}>
          {t.operations[log.operation] ?? log.operation}
        </Text>
        <Badge size="sm" color={log.status === "failed" ? "red" : log.status === "success" ? "pine" : "blue"}>
          {t.outcome[log.status] ?? log.status}
        </Badge>
        {log.version && (
          <Text size="xs" ff="monospace" c="dimmed">
            {log.version}
          </Text>
        )}
        <Box flex={1} />
        <Text size="xs" c="dimmed">
          {log.started_at && format.time(log.started_at)}
          {log.duration_ms !== null && ` · ${format.duration(log.duration_ms)}`}
        </Text>
      </Group>
      {log.steps.length > 0 && (
        <Text size="xs" c="dimmed">
          {log.steps.map(({ name, duration_ms }) => (duration_ms == null ? (t.stages[name] ?? name) : `${t.stages[name] ?? name} ${format.duration(duration_ms)}`)).join(" → ")}
        </Text>
      )}
      {log.error_message && (
        <Text size="sm" style={{ overflowWrap: "anywhere" }}>
          <Code>{log.error_code}</Code> <bdi>{visible(log.error_message)}</bdi>
        </Text>
      )}
    </Box>
  );
}

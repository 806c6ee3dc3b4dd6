/** Which versions of a skill there are, which serves, what is different between two, and what was done. */
import { Badge, Box, Code, Group, Skeleton, Stack, Text, Tooltip } from "@mantine/core";
import { IconSignature } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";

import { useMay } from "@/api/scopes";
import { type InstallLog, installLogsQuery, type Version, versionsQuery } from "@/api/versions";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { visible } from "@/parts/foreign";
import { Loaded } from "@/parts/Loaded";
import { Empty, Section } from "@/parts/Section";

import { Compare } from "./Compare";
import { canServe, Serve, versionName } from "./Serve";
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
    format.bytes(version.size_bytes),
    version.origin.address && t.from(visible(version.origin.address)),
    version.installed_by && t.by(visible(version.installed_by)),
  ].filter(Boolean);
  const state = version.removed ? t.removed : version.yanked ? t.yanked : version.status === "active" ? undefined : (t.states[version.status] ?? version.status);
  return (
    <Group className={classes.row} gap="sm" wrap="nowrap" align="flex-start">
      <Box flex={1} miw={0}>
        <Group gap="xs">
          <Text size="sm" fw={560}>
            <bdi>{versionName(version)}</bdi>
          </Text>
          {version.declared_version && (
            <Text size="xs" c="dimmed" ff="monospace">
              {version.version}
            </Text>
          )}
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
      {writes && canServe(version) && <Serve id={id} version={version} />}
    </Group>
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

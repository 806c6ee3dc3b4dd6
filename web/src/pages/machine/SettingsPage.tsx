/** What holds for this server: its folders, rules and limits, as its settings files come to. */
import { Badge, Code, Skeleton, Stack, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { type Settings, settingsQuery } from "@/api/machine";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { catalog } from "@/pages/catalog/words";
import { DataTable } from "@/parts/DataTable";
import { FactList } from "@/parts/FactList";
import { visible } from "@/parts/foreign";
import { Loaded } from "@/parts/Loaded";
import { Page } from "@/parts/Page";
import { Section } from "@/parts/Section";
import { Value } from "@/parts/Value";

import { Notifications } from "./Notifications";
import { machine } from "./words";

const COLOURS: Record<string, string> = { allow: "pine", ask: "yellow", deny: "red" };

export function SettingsPage() {
  const t = useText(machine);
  const query = useQuery(settingsQuery());
  return (
    <Page title={t.settings} lead={t.settingsLead}>
      <Loaded query={query} skeleton={<Skeleton h={480} />}>
        {(settings) => (
          <Stack gap="md">
            <Server settings={settings} />
            <Notifications settings={settings} />
            <Roots settings={settings} />
            <Rules settings={settings} />
            <Section title={t.sandbox} lead={t.sandboxWhy} empty={!Object.keys(settings.sandbox).length && t.noSandbox}>
              <Value value={settings.sandbox} />
            </Section>
          </Stack>
        )}
      </Loaded>
    </Page>
  );
}

function Server({ settings }: { settings: Settings }) {
  const t = useText(machine);
  const path = (text: string) => <Code>{visible(text)}</Code>;
  return (
    <Section title={t.server}>
      <FactList
        facts={[
          [t.version, settings.version],
          [t.project, path(settings.project_root)],
          [t.data, path(settings.data_directory)],
          [
            t.files,
            settings.files.length ? (
              <Stack gap={4} align="flex-start" key="files">
                {settings.files.map((file) => (
                  <Code key={file}>{visible(file)}</Code>
                ))}
              </Stack>
            ) : (
              t.noFiles
            ),
          ],
          [t.database, settings.database],
          [t.store, settings.package_store && path(settings.package_store)],
          [t.profile, settings.profile],
          [t.allowedTools, settings.allowed_tools],
          [t.external, settings.allow_external_paths ? t.yes : t.no],
          [t.hosts, settings.private_hosts ? t.yes : t.no],
          [t.servers, settings.servers.map(visible).join(", ")],
        ]}
      />
    </Section>
  );
}

function Roots({ settings }: { settings: Settings }) {
  const t = useText(machine);
  const sources: Record<string, string> = useText(catalog).sources;
  const format = useFormat();
  return (
    <Section title={t.roots}>
      <DataTable minWidth={560} dense columns={[t.folder, t.source, t.state, { name: t.skills, right: true }]}>
        {settings.roots.map((root) => (
          <Table.Tr key={`${root.source} ${root.path}`}>
            <Table.Td>
              <Text size="sm" ff="monospace" style={{ overflowWrap: "anywhere" }}>
                {visible(root.path)}
              </Text>
            </Table.Td>
            <Table.Td>{sources[root.source] ?? root.source}</Table.Td>
            <Table.Td title={root.reason ?? ""}>{root.status}</Table.Td>
            <Table.Td ta="right">{format.number(root.skills)}</Table.Td>
          </Table.Tr>
        ))}
      </DataTable>
    </Section>
  );
}

function Rules({ settings }: { settings: Settings }) {
  const t = useText(machine);
  const permissions: Record<string, string> = t.permissions;
  return (
    <Section title={t.rules} lead={t.rulesWhy[settings.permission_match]} empty={!settings.permissions.length && t.noRules}>
      <DataTable minWidth={260} dense columns={[t.pattern, t.permission]}>
        {settings.permissions.map((rule) => (
          <Table.Tr key={rule.pattern}>
            <Table.Td>
              <Code>{visible(rule.pattern)}</Code>
            </Table.Td>
            <Table.Td>
              <Badge color={COLOURS[rule.permission] ?? "gray"}>{permissions[rule.permission] ?? rule.permission}</Badge>
            </Table.Td>
          </Table.Tr>
        ))}
      </DataTable>
    </Section>
  );
}

/** One skill of a source, before it is installed: all there is to know for a decision. */
import { Alert, Badge, Box, Checkbox, Code, Group, List, Paper, Stack, Table, Tabs, Text, Title } from "@mantine/core";
import { IconAlertTriangle, IconBan, IconInfoCircle, IconShieldExclamation, IconShieldPlus } from "@tabler/icons-react";
import type { ReactNode } from "react";

import type { Inspected } from "@/api/installing";
import { useText } from "@/i18n";
import { useMeaning, usePowerWords } from "@/i18n/chinese";
import { useFormat } from "@/i18n/format";
import { body } from "@/pages/skill/frontMatter";
import { ClientTable } from "@/parts/ClientTable";
import { Difference } from "@/parts/Difference";
import { FactList } from "@/parts/FactList";
import { visible } from "@/parts/foreign";
import { HarmList } from "@/parts/HarmList";
import { PowerList } from "@/parts/PowerList";
import { Reading, Whole } from "@/parts/Reading";
import { GRAVITY } from "@/parts/ScanBadge";

import classes from "./Review.module.css";
import { install } from "./words";

const SHOWN = 300; // files that are listed
const WORST = 3; // findings that are shown above the agreement

interface Props {
  skill: Inspected;
  single: boolean;
  possible: boolean;
  taken: boolean;
  take: (on: boolean) => void;
  agreed: boolean;
  agree: (on: boolean) => void;
  overruled: boolean;
  overrule: (on: boolean) => void;
}

export function FoundSkill({ skill, single, possible, taken, take, agreed, agree, overruled, overrule }: Props) {
  const t = useText(install);
  const meaning = useMeaning("rules");
  const said = usePowerWords();
  const refused = useMeaning("errors");
  const refusal = ({ code, message, hint }: Inspected["refusals"][number]): Note => {
    const meant = refused(code);
    const whole = [message, hint].filter(Boolean).join(" — ");
    return meant ? { said: `${meant.title}：${meant.fix}`, original: whole } : { said: whole };
  };
  return (
    <Paper p="lg" className={classes.skill} component="article" aria-label={visible(skill.name)}>
      <Group gap="sm" align="flex-start" wrap="nowrap">
        {!single && <Checkbox mt={4} checked={taken} disabled={!possible} onChange={(event) => take(event.currentTarget.checked)} aria-label={`${t.take}: ${visible(skill.name)}`} />}
        <Box miw={0} flex={1}>
          <Group gap="xs">
            <Title order={3} style={{ overflowWrap: "anywhere" }}>
              <bdi>{visible(skill.name)}</bdi>
            </Title>
            {skill.declared_version && <Code>{visible(skill.declared_version)}</Code>}
            <Badge color={skill.unchanged ? "gray" : skill.installed ? "blue" : "pine"}>
              {skill.unchanged ? t.same : skill.installed ? t.update : t.fresh}
            </Badge>
          </Group>
          <Text size="sm" c="dimmed" lineClamp={4} mt={4} style={{ overflowWrap: "anywhere" }}>
            <bdi>{visible(skill.description)}</bdi>
          </Text>
          <Summary skill={skill} />
        </Box>
      </Group>
      <Stack gap="sm" mt="md">
        {single && skill.unchanged && possible && <Checkbox checked={taken} onChange={(event) => take(event.currentTarget.checked)} label={t.take} />}
        <Notes icon={<IconBan size={18} />} color="red" title={possible ? t.refusedByDefault : t.refused} notes={skill.refusals.map(refusal)}>
          {possible && skill.refusals.length > 0 && <Checkbox mt="sm" checked={overruled} onChange={(event) => overrule(event.currentTarget.checked)} label={t.force} />}
        </Notes>
        <Worst skill={skill} />
        <Notes icon={<IconShieldPlus size={18} />} color="orange" title={t.mayMore} notes={possible ? (skill.change?.widened ?? []).map(said) : []}>
          <Checkbox mt="sm" checked={agreed} onChange={(event) => agree(event.currentTarget.checked)} label={t.agree} />
        </Notes>
        <Notes icon={<IconAlertTriangle size={18} />} color="yellow" title={t.unmet} notes={skill.unmet} />
        <Notes
          icon={<IconInfoCircle size={18} />}
          color="gray"
          title={t.warnings}
          notes={[...skill.warnings, ...skill.diagnostics.filter(({ severity }) => severity !== "info").map(({ rule, message, line }) => `${meaning(rule)?.title ?? message} (SKILL.md:${line})`)]}
        />
        <Parts skill={skill} />
      </Stack>
    </Paper>
  );
}

/** A sentence, and that of the server below it where it is in other words. */
interface Note {
  said: string;
  original?: string;
}

interface NotesProps {
  icon: ReactNode;
  color: string;
  title: string;
  notes: readonly (string | Note)[];
  children?: ReactNode;
}

function Notes({ icon, color, title, notes, children }: NotesProps) {
  if (notes.length === 0) return null;
  return (
    <Alert variant="light" color={color} icon={icon} title={title}>
      <List size="sm" spacing={2}>
        {notes.map((note) => (typeof note === "string" ? { said: note } : note)).map(({ said, original }, index) => (
          <List.Item key={index} style={{ overflowWrap: "anywhere" }}>
            <bdi>{visible(said)}</bdi>
            {original && ( // not dimmed: that is too faint on a coloured ground
              <Text size="xs" lang="en">
                <bdi>{visible(original)}</bdi>
              </Text>
            )}
          </List.Item>
        ))}
      </List>
      {children}
    </Alert>
  );
}

/** The gravest of what the scanner found, before anything is agreed to. */
function Worst({ skill: { findings } }: { skill: Inspected }) {
  const t = useText(install);
  const meaning = useMeaning("findings");
  const open = findings.filter(({ allowed }) => !allowed);
  const worst = open[0]?.severity;
  if (worst !== "high" && worst !== "medium") return null;
  const alike = open.filter(({ severity }) => severity === worst);
  const notes = alike.slice(0, WORST).map(({ rule, message, file, line }): Note => {
    const meant = meaning(rule)?.title;
    return meant ? { said: `${meant} (${file}:${line})`, original: message } : { said: `${message} (${file}:${line})` };
  });
  return (
    <Notes icon={<IconShieldExclamation size={18} />} color={GRAVITY[worst] ?? "red"} title={t.worst[worst]} notes={notes}>
      {open.length > notes.length && (
        <Text size="sm" mt={4}>
          {t.moreFindings(open.length - notes.length)}
        </Text>
      )}
    </Notes>
  );
}

function Summary({ skill }: { skill: Inspected }) {
  const t = useText(install);
  const format = useFormat();
  const worst = skill.findings[0]?.severity;
  const loads = skill.clients.filter(({ loads }) => loads).length;
  return (
    <Group gap={6} mt="sm">
      <Badge color="gray">{t.summary.files(format.number(skill.files.length), format.bytes(skill.size_bytes))}</Badge>
      {skill.powers.scripts.length > 0 && <Badge color="blue">{t.summary.scripts(format.number(skill.powers.scripts.length))}</Badge>}
      <Badge color={worst === "high" ? "red" : worst ? "orange" : "pine"}>
        {worst ? t.summary.findings(format.number(skill.findings.length)) : t.summary.clean}
      </Badge>
      <Badge color={loads === skill.clients.length ? "pine" : "yellow"}>{t.summary.clients(loads, skill.clients.length)}</Badge>
      {skill.signer && <Badge color="blue">{t.summary.signed}</Badge>}
    </Group>
  );
}

function Parts({ skill }: { skill: Inspected }) {
  const t = useText(install);
  const parts: [keyof typeof t.tabs, ReactNode, number?][] = [
    ["powers", <PowerList key="powers" powers={skill.powers} before={skill.powers_before} />],
    ["findings", <HarmList key="findings" findings={skill.findings} />, skill.findings.length],
    ...(skill.difference && !skill.unchanged
      ? [["difference", <Difference key="difference" difference={skill.difference} />, skill.difference.files.length] as [keyof typeof t.tabs, ReactNode, number]]
      : []),
    ["text", <Instructions key="text" text={skill.skill_md} />],
    ["header", <Header key="header" fields={skill.front_matter} />],
    ["files", <FileTable key="files" files={skill.files} />, skill.files.length],
    ["clients", <ClientTable key="clients" clients={skill.clients} />],
  ];
  return (
    <Tabs defaultValue="powers" classNames={{ list: classes.tabs }}>
      <Tabs.List>
        {parts.map(([name, , count]) => (
          <Tabs.Tab
            key={name}
            value={name}
            rightSection={
              count ? (
                <Badge size="xs" color="gray">
                  {count}
                </Badge>
              ) : undefined
            }
          >
            {t.tabs[name]}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      {parts.map(([name, content]) => (
        <Tabs.Panel key={name} value={name} className={classes.panel}>
          {content}
        </Tabs.Panel>
      ))}
    </Tabs>
  );
}

function Instructions({ text }: { text: string }) {
  return (
    <Reading
      text={body(text)}
      model={<Whole text={text} />}
    />
  );
}

function Header({ fields }: { fields: Inspected["front_matter"] }) {
  return (
    <FactList
      facts={Object.entries(fields).map(([name, value]) => [
        visible(name),
        typeof value === "string" ? (
          <bdi key={name}>{visible(value)}</bdi>
        ) : (
          <Code key={name} block fz="xs" mah={220} style={{ overflow: "auto" }} tabIndex={0}>
            {visible(JSON.stringify(value, null, 2))}
          </Code>
        ),
      ])}
    />
  );
}

function FileTable({ files }: { files: Inspected["files"] }) {
  const t = useText(install);
  const format = useFormat();
  return (
    <Table.ScrollContainer minWidth={360} mah={420}>
      <Table verticalSpacing={4} stickyHeader>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t.file}</Table.Th>
            <Table.Th>{t.type}</Table.Th>
            <Table.Th ta="right">{t.size}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {files.slice(0, SHOWN).map(({ path, type, size }) => (
            <Table.Tr key={path}>
              <Table.Td ff="monospace" fz="sm" style={{ overflowWrap: "anywhere" }}>
                {visible(path)}
              </Table.Td>
              <Table.Td>{t.types[type] ?? type}</Table.Td>
              <Table.Td ta="right" style={{ whiteSpace: "nowrap" }}>
                {format.bytes(size)}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      {files.length > SHOWN && (
        <Text size="sm" c="dimmed" mt="xs">
          + {format.number(files.length - SHOWN)}
        </Text>
      )}
    </Table.ScrollContainer>
  );
}

/** What a skill says to a model, and what is known about it at a glance. */
import { Alert, Box, Code, Group, Skeleton, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";

import { fileAddress, fileQuery } from "@/api/files";
import { installedId, modelTextQuery, type SkillDetail } from "@/api/skills";
import { useText } from "@/i18n";
import { useMeaning } from "@/i18n/chinese";
import { useFormat } from "@/i18n/format";
import { FactList } from "@/parts/FactList";
import { Loaded } from "@/parts/Loaded";
import { AnchorLink, BadgeLink } from "@/parts/links";
import { Original } from "@/parts/Original";
import { Reading, Whole } from "@/parts/Reading";
import { reading } from "@/parts/readingWords";
import { visible } from "@/parts/foreign";

import { body } from "./frontMatter";
import classes from "./SkillPage.module.css";
import { Shown } from "./Shown";
import { skill as table } from "./words";

const route = getRouteApi("/skills/$id");

export default function About({ skill }: { skill: SkillDetail }) {
  const t = useText(table);
  const navigate = route.useNavigate();
  const text = useQuery(fileQuery(skill.id, skill.path.slice(skill.directory.length + 1) || "SKILL.md"));
  return (
    <Box className={classes.columns}>
      <Stack gap="lg" miw={0}>
        <Findings skill={skill} />
        <Loaded query={text} skeleton={<Skeleton h="max(420px, 80vh)" />}>
          {(found) => {
            const instructions = body(found).trim();
            return instructions ? (
              <Reading
                text={instructions}
                picture={(path) => fileAddress(skill.id, path)}
                open={(file) => void navigate({ search: { tab: "files", file } })}
                model={<ModelText skill={skill.id} />}
              />
            ) : (
              <Text c="dimmed">{t.noText}</Text>
            );
          }}
        </Loaded>
      </Stack>
      <Side skill={skill} />
    </Box>
  );
}

/** The exact text that a model gets. */
function ModelText({ skill }: { skill: string }) {
  const t = useText(reading);
  const format = useFormat();
  const query = useQuery(modelTextQuery(skill));
  return (
    <Loaded query={query} skeleton={<Skeleton h={420} />}>
      {({ text, tokens }) => (
        <>
          <Text size="sm" c="dimmed" mb="sm">
            {t.tokens(format.number(tokens))}
          </Text>
          <Whole text={text} />
        </>
      )}
    </Loaded>
  );
}

function Findings({ skill }: { skill: SkillDetail }) {
  const t = useText(table);
  const meaning = useMeaning("rules");
  if (skill.diagnostics.length === 0) return null;
  const worst = skill.diagnostics.some(({ severity }) => severity === "error") ? "red" : "yellow";
  return (
    <Alert variant="light" color={worst} title={t.findings}>
      <Stack gap={6}>
        {skill.diagnostics.map(({ rule, message, line, fix }, index) => {
          const meant = meaning(rule);
          const remedy = meant?.fix ?? fix;
          return (
            <Text key={index} size="sm" component="div" style={{ overflowWrap: "anywhere" }}>
              <Code>{rule}</Code> {meant?.title ?? visible(message)}{" "}
              <Text span c="dimmed" inherit>
                ({t.line(line)})
              </Text>
              {remedy && (
                <Text size="sm" c="dimmed">
                  {t.fix}: {visible(remedy)}
                </Text>
              )}
              {meant && <Original>{[message, fix]}</Original>}
            </Text>
          );
        })}
      </Stack>
    </Alert>
  );
}

function Side({ skill }: { skill: SkillDetail }) {
  const t = useText(table);
  const format = useFormat();
  const known = installedId(skill.id);
  const size = skill.inventory.totalSizeBytes;
  const license = skill.front_matter.license;
  return (
    <Stack gap="lg" component="aside">
      <FactList
        stacked
        facts={[
          [t.facts.id, <Code key="id">{skill.id}</Code>],
          [t.facts.kind, skill.kind],
          [t.facts.license, typeof license === "string" && visible(license)],
          [t.facts.size, t.size(format.number(skill.files.length + 1), format.bytes(typeof size === "number" ? size : 0))],
          [
            t.facts.tags,
            skill.tags.length > 0 && (
              <Group gap={4} mt={2}>
                {skill.tags.slice(0, 30).map((tag) => (
                  <BadgeLink key={tag} color="gray" to="/skills" search={{ tag }} maw="100%">
                    {visible(tag)}
                  </BadgeLink>
                ))}
              </Group>
            ),
          ],
          [t.facts.tools, skill.allowed_tools.length > 0 && skill.allowed_tools.map(visible).join(", ")],
          [t.facts.models, !skill.model_invocable && t.forPeople],
          [
            t.facts.permission,
            `${t.decisions[skill.permission.decision]}${skill.permission.pattern ? `, ${t.byRule(skill.permission.pattern)}` : ""}`,
          ],
          [
            t.facts.namesakes,
            skill.namesakes.length > 0 &&
              skill.namesakes.map(({ id, directory }) => (
                <Text key={id} size="sm">
                  <AnchorLink to="/skills/$id" params={{ id }} size="sm">
                    {id}
                  </AnchorLink>{" "}
                  <Text span size="xs" c="dimmed">
                    {directory}
                  </Text>
                </Text>
              )),
          ],
          [t.facts.folder, <Code key="folder">{skill.directory}</Code>],
          [t.facts.digest, <Code key="digest">{skill.digest}</Code>],
        ]}
      />
      {known && <Shown id={known} />}
      <Header skill={skill} />
    </Stack>
  );
}

/** The fields of the header that are not shown elsewhere, as they were read. */
function Header({ skill }: { skill: SkillDetail }) {
  const t = useText(table);
  const fields = Object.entries(skill.front_matter).filter(([name]) => !SHOWN.has(name));
  if (fields.length === 0) return null;
  return (
    <Box>
      <Title order={2} size="h3" mb={2}>
        {t.header}
      </Title>
      <Text size="xs" c="dimmed" mb="sm">
        {t.headerHint}
      </Text>
      <FactList
        stacked
        facts={fields.map(([name, value]) => [
          visible(name),
          typeof value === "string" ? (
            visible(value)
          ) : (
            <Code block fz="xs" key={name} mah={180} style={{ overflow: "auto" }} tabIndex={0}>
              {JSON.stringify(value, null, 2)}
            </Code>
          ),
        ])}
      />
    </Box>
  );
}

const SHOWN = new Set(["name", "description", "displayName", "display_name", "display-name", "version", "license", "tags", "input_schema", "inputSchema", "allowed-tools", "allowed_tools"]);

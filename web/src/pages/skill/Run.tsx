/** A form made from what the skill says it takes, the run that comes of it, and the runs before. */
import { Alert, Box, Button, Checkbox, Group, JsonInput, SegmentedControl, Skeleton, Stack, Text } from "@mantine/core";
import { IconPlayerPlay } from "@tabler/icons-react";
import { useInfiniteQuery, useMutation, useQueryClient } from "@tanstack/react-query";
import { type SubmitEvent, useMemo, useState } from "react";

import { runsQuery, startRun, useRun } from "@/api/runs";
import { isOver } from "@/api/runStates";
import type { Portrait } from "@/api/skills";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { visible } from "@/parts/foreign";
import { ErrorState } from "@/parts/ErrorState";
import { AnchorLink } from "@/parts/links";
import { Loaded } from "@/parts/Loaded";
import { Empty, Section } from "@/parts/Section";

import { Logs } from "../run/Logs";
import { Output } from "../run/Output";
import { RunPlace, RunRow } from "../runs/RunRow";
import { RunStateBadge } from "../runs/RunStateBadge";
import { running } from "./runWords";
import { SchemaField } from "./SchemaField";
import { checked, fieldsOf, initial, outcome, type Outcome, type Trouble } from "./schemaForm";

export default function Run({ skill }: { skill: Portrait }) {
  const cache = useQueryClient();
  const [run, setRun] = useState<string>();
  const starting = useMutation({
    mutationFn: startRun,
    onSuccess: async ({ run_id }) => {
      setRun(run_id);
      await cache.invalidateQueries({ queryKey: ["runs", "list"] });
    },
  });
  return (
    <Stack gap="md">
      <RunForm skill={skill} busy={starting.isPending} again={run !== undefined} start={(parameters, fresh) => starting.mutate({ skill: skill.id, parameters, fresh })} />
      {starting.error && <ErrorState error={starting.error} />}
      {run && <Going key={run} id={run} />}
      <Recent skill={skill} />
    </Stack>
  );
}

interface FormProps {
  skill: Portrait;
  busy: boolean;
  again: boolean;
  start: (parameters: Record<string, unknown>, fresh: boolean) => void;
}

function RunForm({ skill, busy, again, start }: FormProps) {
  const t = useText(running);
  const schema = skill.input_schema;
  const fields = useMemo(() => fieldsOf(schema), [schema]);
  const [asJson, setAsJson] = useState(!fields);
  const [values, setValues] = useState(() => initial(fields ?? []));
  const [json, setJson] = useState("{}");
  const [fresh, setFresh] = useState(false);
  const [tried, setTried] = useState(false);
  const found = asJson || !fields ? readJson(schema, json) : outcome(schema, fields, values);
  const problems = tried ? found.problems : {};
  const others = Object.entries(problems).filter(([name]) => asJson || !fields?.some((field) => field.name === name));

  const turn = (toJson: boolean) => {
    if (toJson && fields) setJson(JSON.stringify(outcome(schema, fields, values).parameters, null, 2));
    else if (fields) setValues(taken(fields, found.parameters));
    setAsJson(toJson);
    setTried(false);
  };
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    setTried(true);
    if (Object.keys(found.problems).length === 0) start(found.parameters, fresh);
  };
  return (
    <Section
      title={t.parameters}
      actions={
        fields && (
          <SegmentedControl
            size="xs"
            aria-label={t.how}
            value={asJson ? "json" : "form"}
            onChange={(value) => turn(value === "json")}
            data={[
              { value: "form", label: t.form },
              { value: "json", label: t.json },
            ]}
          />
        )
      }
    >
      <form onSubmit={submit} noValidate>
        <Stack gap="md" maw={720}>
          {!fields && <Text size="sm">{schema ? t.nothing : t.free}</Text>}
          {asJson || !fields ? (
            <JsonInput aria-label={t.parameters} value={json} onChange={setJson} autosize minRows={4} maxRows={24} formatOnBlur ff="monospace" />
          ) : (
            fields.map((field) => (
              <SchemaField
                key={field.name}
                field={field}
                value={values[field.name] ?? ""}
                trouble={problems[field.name]}
                set={(value) => setValues((before) => ({ ...before, [field.name]: value }))}
              />
            ))
          )}
          {others.length > 0 && (
            <Alert color="red" variant="light" role="alert">
              {others.map(([name, trouble]) => (
                <Text key={name} size="sm">
                  {name && `${visible(name)}: `}
                  {trouble.code === "schema" ? trouble.message : t.troubles[trouble.code]}
                </Text>
              ))}
            </Alert>
          )}
          <Group gap="md">
            <Button type="submit" loading={busy} leftSection={<IconPlayerPlay size={16} />}>
              {again ? t.again : t.run}
            </Button>
            {skill.front_matter.cacheable === "true" && (
              <Checkbox label={t.fresh} checked={fresh} onChange={(event) => setFresh(event.currentTarget.checked)} />
            )}
          </Group>
          <Text size="xs" c="dimmed">
            {t.sandbox}
          </Text>
        </Stack>
      </form>
    </Section>
  );
}

/** What was written as JSON, as the fields have it. */
function taken(fields: NonNullable<ReturnType<typeof fieldsOf>>, parameters: Record<string, unknown>) {
  return initial(fields.map((field) => ({ ...field, schema: { ...field.schema, default: parameters[field.name] } })));
}

function readJson(schema: unknown, json: string): Outcome {
  const wrong = (trouble: Trouble): Outcome => ({ parameters: {}, problems: { "": trouble } });
  try {
    const parameters: unknown = JSON.parse(json.trim() || "{}");
    if (typeof parameters !== "object" || parameters === null || Array.isArray(parameters)) return wrong({ code: "json" });
    return { parameters: parameters as Record<string, unknown>, problems: checked(schema, parameters) };
  } catch {
    return wrong({ code: "json" });
  }
}

/** The run that was started here: where it is, what it came to, what it prints. */
function Going({ id }: { id: string }) {
  const t = useText(running);
  const format = useFormat();
  const { query, heard } = useRun(id);
  return (
    <Loaded query={query} skeleton={<Skeleton h={160} />}>
      {(run) => {
        const live = !isOver(run.state);
        return (
          <Stack gap="md">
            <Group gap="sm">
              <RunStateBadge state={live ? (heard.state ?? run.state) : run.state} />
              {run.duration_ms !== null && (
                <Text size="sm" c="dimmed">
                  {format.duration(run.duration_ms)}
                </Text>
              )}
              <AnchorLink to="/runs/$id" params={{ id }} size="sm">
                {t.open}
              </AnchorLink>
            </Group>
            {run.error && (
              <Alert color="red" variant="light" title={<code>{run.error.code}</code>} role="alert">
                <Text size="sm" style={{ overflowWrap: "anywhere", whiteSpace: "pre-wrap" }}>
                  <bdi>{visible(run.error.message ?? "")}</bdi>
                </Text>
              </Alert>
            )}
            {(run.state === "succeeded" || live) && <Output run={run} />}
            {(heard.stdout || heard.stderr || run.stdout || run.stderr) && (
              <Logs stdout={live ? heard.stdout : run.stdout} stderr={live ? heard.stderr : run.stderr} live={live} />
            )}
          </Stack>
        );
      }}
    </Loaded>
  );
}

function Recent({ skill }: { skill: Portrait }) {
  const t = useText(running);
  const list = useInfiniteQuery(runsQuery({ skill: skill.id }, 5));
  return (
    <Section
      title={t.recent}
      actions={
        <AnchorLink to="/runs" search={{ skill: skill.id }} size="sm">
          {t.allRuns}
        </AnchorLink>
      }
    >
      <Loaded query={list} skeleton={<RunPlace />}>
        {({ pages }) => {
          const runs = pages[0]?.data ?? [];
          return runs.length > 0 ? (
            <Box mx="calc(var(--mantine-spacing-md) * -1)">
              {runs.map((run) => (
                <RunRow key={run.run_id} run={run} />
              ))}
            </Box>
          ) : (
            <Empty>{t.none}</Empty>
          );
        }}
      </Loaded>
    </Section>
  );
}

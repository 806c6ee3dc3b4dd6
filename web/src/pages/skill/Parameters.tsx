/** What a skill is given, written in a form made from what it says it takes, or as JSON. */
import { Alert, JsonInput, SegmentedControl, Stack, Text } from "@mantine/core";
import { useMemo, useState } from "react";

import { useText } from "@/i18n";
import { visible } from "@/parts/foreign";
import { useWritten } from "@/parts/kept";

import { running } from "./runWords";
import { SchemaField } from "./SchemaField";
import { checked, type Field, fieldsOf, givenValues, initial, outcome, type Outcome, type Values, withoutSecrets } from "./schemaForm";

export interface Writing {
  schema: unknown;
  fields: readonly Field[] | undefined;
  asJson: boolean;
  turn: (toJson: boolean) => void;
  values: Values;
  set: (name: string, value: string) => void;
  json: string;
  setJson: (json: string) => void;
  /** What is wrong, once it was tried. */
  problems: Outcome["problems"];
  /** The parameters when they can be meant; else what is wrong is shown from now on. */
  take: () => Record<string, unknown> | undefined;
}

/** What was written at `place` before is there again. */
export function useParameters(schema: unknown, place: string): Writing {
  const fields = useMemo(() => fieldsOf(schema), [schema]);
  const first = () => ({ asJson: !fields, values: initial(fields ?? []), json: "{}" });
  const [typed, change] = useWritten(place, first, ({ values, ...others }) => ({ ...others, values: withoutSecrets(fields ?? [], values) }));
  const { asJson, json } = typed;
  const values = { ...initial(fields ?? []), ...typed.values };
  const [tried, setTried] = useState(false);
  const found = asJson || !fields ? readJson(schema, json) : outcome(schema, fields, values);
  return {
    schema,
    fields,
    asJson: asJson || !fields,
    turn: (toJson) => {
      const json = toJson && fields ? { json: JSON.stringify(outcome(schema, fields, values).parameters, null, 2) } : {};
      change({ asJson: toJson, ...json, ...(!toJson && fields ? { values: givenValues(fields, found.parameters) } : {}) });
      setTried(false);
    },
    values,
    set: (name, value) => change({ values: { ...values, [name]: value } }),
    json,
    setJson: (json) => change({ json }),
    problems: tried ? found.problems : {},
    take: () => {
      setTried(true);
      return Object.keys(found.problems).length === 0 ? found.parameters : undefined;
    },
  };
}

/** The choice between the form and JSON, where there is one. */
export function FormOrJson({ writing: { fields, asJson, turn } }: { writing: Writing }) {
  const t = useText(running);
  if (!fields) return null;
  return (
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
  );
}

export function Parameters({ writing: { schema, fields, asJson, values, set, json, setJson, problems } }: { writing: Writing }) {
  const t = useText(running);
  const others = Object.entries(problems).filter(([name]) => asJson || !fields?.some((field) => field.name === name));
  return (
    <Stack gap="md">
      {!fields && <Text size="sm">{schema ? t.nothing : t.free}</Text>}
      {asJson || !fields ? (
        <JsonInput aria-label={t.parameters} value={json} onChange={setJson} autosize minRows={2} maxRows={24} ff="monospace" />
      ) : (
        fields.map((field) => (
          <SchemaField key={field.name} field={field} value={values[field.name] ?? ""} trouble={problems[field.name]} set={(value) => set(field.name, value)} />
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
    </Stack>
  );
}

function readJson(schema: unknown, json: string): Outcome {
  const parameters = readObject(json);
  return parameters ? { parameters, problems: checked(schema, parameters) } : { parameters: {}, problems: { "": { code: "json" } } };
}

/** The object that a text is as JSON, an empty one for no text; nothing when it is none. */
export function readObject(json: string): Record<string, unknown> | undefined {
  try {
    const found: unknown = JSON.parse(json.trim() || "{}");
    return typeof found === "object" && found !== null && !Array.isArray(found) ? (found as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

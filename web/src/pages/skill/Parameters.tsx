/** What a skill is given, written in a form made from what it says it takes, or as JSON. */
import { Alert, JsonInput, SegmentedControl, Stack, Text } from "@mantine/core";
import { useMemo, useState } from "react";

import { useText } from "@/i18n";
import { visible } from "@/parts/foreign";

import { running } from "./runWords";
import { SchemaField } from "./SchemaField";
import { checked, type Field, fieldsOf, initial, outcome, type Outcome, type Values } from "./schemaForm";

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

export function useParameters(schema: unknown): Writing {
  const fields = useMemo(() => fieldsOf(schema), [schema]);
  const [asJson, setAsJson] = useState(!fields);
  const [values, setValues] = useState(() => initial(fields ?? []));
  const [json, setJson] = useState("{}");
  const [tried, setTried] = useState(false);
  const found = asJson || !fields ? readJson(schema, json) : outcome(schema, fields, values);
  return {
    schema,
    fields,
    asJson: asJson || !fields,
    turn: (toJson) => {
      if (toJson && fields) setJson(JSON.stringify(outcome(schema, fields, values).parameters, null, 2));
      else if (fields) setValues(taken(fields, found.parameters));
      setAsJson(toJson);
      setTried(false);
    },
    values,
    set: (name, value) => setValues((before) => ({ ...before, [name]: value })),
    json,
    setJson,
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

/** What was written as JSON, as the fields have it. */
function taken(fields: readonly Field[], parameters: Record<string, unknown>): Values {
  return initial(fields.map((field) => ({ ...field, schema: { ...field.schema, default: parameters[field.name] } })));
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

/** A form made from a JSON Schema: its fields, what is in them at first, and what they come to. */
import { Validator } from "@cfworker/json-schema";

type Schema = Readonly<Record<string, unknown>>;

export type Kind = "line" | "text" | "integer" | "number" | "boolean" | "choice" | "list" | "json";

export interface Field {
  name: string;
  /** A title, or the name. */
  label: string;
  description: string;
  required: boolean;
  kind: Kind;
  /** For a choice: each as JSON, and as it is shown. */
  options: readonly { value: string; label: string }[];
  schema: Schema;
}

/** What stands in the fields: text, or for a boolean "true", "false" or nothing. */
export type Values = Readonly<Record<string, string>>;

export interface Outcome {
  parameters: Record<string, unknown>;
  /** What is wrong with a field, by its name; under "" what is wrong with the whole. */
  problems: Readonly<Record<string, Trouble>>;
}

/** A word of our own, or what the validator says. */
export type Trouble = { code: "required" | "number" | "integer" | "json" } | { code: "schema"; message: string };

const object = (value: unknown): Schema | undefined =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Schema) : undefined;
const text = (value: unknown): string => (typeof value === "string" ? value : "");

/** The fields of a schema; nothing when it is no object with named properties, so that only JSON can be written. */
export function fieldsOf(schema: unknown): Field[] | undefined {
  const properties = object(object(schema)?.properties);
  if (!properties || Object.keys(properties).length === 0) return undefined;
  const required = object(schema)?.required;
  const needed = new Set(Array.isArray(required) ? required : []);
  return Object.entries(properties).map(([name, found]) => field(name, object(found) ?? {}, needed.has(name)));
}

function field(name: string, schema: Schema, required: boolean): Field {
  const choices = Array.isArray(schema.enum) ? (schema.enum as unknown[]) : undefined;
  return {
    name,
    label: text(schema.title) || name,
    description: text(schema.description),
    required,
    kind: choices ? "choice" : kind(schema, name),
    options: (choices ?? []).map((choice) => ({ value: JSON.stringify(choice), label: typeof choice === "string" ? choice : JSON.stringify(choice) })),
    schema,
  };
}

function kind(schema: Schema, name: string): Kind {
  const types = ([] as unknown[]).concat(schema.type ?? []).filter((type) => type !== "null");
  if (types.length !== 1) return types.length === 0 && "const" in schema ? "json" : types.length === 0 ? "line" : "json";
  const [type] = types;
  if (type === "string") return isLong(schema, name) ? "text" : "line";
  if (type === "integer" || type === "number" || type === "boolean") return type;
  if (type === "array" && text(object(schema.items)?.type) === "string" && !object(schema.items)?.enum) return "list";
  return "json";
}

/** Whether more than a line is to be expected. */
function isLong(schema: Schema, name: string): boolean {
  const most = Number(schema.maxLength);
  return most > 200 || (!most && /text|content|body|code|document|markdown|prompt|message|csv|html/i.test(name) && !schema.format);
}

/** The defaults of the schema. */
export function initial(fields: readonly Field[]): Values {
  return Object.fromEntries(fields.map((field) => [field.name, written(field, field.schema.default)]));
}

/** What was given, as the fields have it. */
export function givenValues(fields: readonly Field[], given: Record<string, unknown>): Values {
  return Object.fromEntries(fields.map((field) => [field.name, written(field, given[field.name])]));
}

/** What may be kept in the browser: nothing that the schema calls a password, or never gives back. */
export function withoutSecrets(fields: readonly Field[], values: Values): Values {
  const secret = new Set(fields.filter(({ schema }) => schema.format === "password" || schema.writeOnly === true).map(({ name }) => name));
  return Object.fromEntries(Object.entries(values).filter(([name]) => !secret.has(name)));
}

function written({ kind }: Field, value: unknown): string {
  if (value === undefined || value === null) return "";
  if (kind === "list" && Array.isArray(value)) return value.map((one) => plain(one)).join("\n");
  if (kind === "choice" || kind === "json") return JSON.stringify(value, null, kind === "json" ? 2 : 0);
  return plain(value);
}

const plain = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));

/** What the fields come to; what is empty and not required is left out. */
export function outcome(schema: unknown, fields: readonly Field[], values: Values): Outcome {
  const given: [string, unknown][] = []; // a field may be called __proto__
  const problems = new Map<string, Trouble>();
  for (const field of fields) {
    const raw = values[field.name] ?? "";
    if (raw.trim() === "" && !(field.kind === "line" && raw !== "")) {
      if (field.required) problems.set(field.name, { code: "required" });
      continue;
    }
    const read = value(field, raw);
    if ("trouble" in read) problems.set(field.name, read.trouble);
    else given.push([field.name, read.value]);
  }
  const parameters = Object.fromEntries(given);
  return { parameters, problems: { ...checked(schema, parameters, new Set(problems.keys())), ...Object.fromEntries(problems) } };
}

function value({ kind }: Field, raw: string): { value: unknown } | { trouble: Trouble } {
  if (kind === "line" || kind === "text") return { value: raw };
  if (kind === "boolean") return { value: raw === "true" };
  if (kind === "list") return { value: raw.split("\n").filter((line) => line.trim() !== "") };
  if (kind === "integer" || kind === "number") {
    const number = Number(raw);
    if (!Number.isFinite(number)) return { trouble: { code: "number" } };
    return kind === "integer" && !Number.isInteger(number) ? { trouble: { code: "integer" } } : { value: number };
  }
  try {
    return { value: JSON.parse(raw) as unknown };
  } catch {
    return { trouble: { code: "json" } };
  }
}

/** What the schema says against the parameters, by field; of those that `known` has something is said already. */
export function checked(schema: unknown, parameters: unknown, known: ReadonlySet<string> = new Set()): Record<string, Trouble> {
  const described = object(schema);
  if (!described) return {};
  try {
    const { errors } = new Validator(described, "2020-12", false).validate(parameters);
    const problems: Record<string, Trouble> = {};
    for (const { instanceLocation, keyword, error } of errors) {
      if (keyword === "properties" || keyword === "$ref" || keyword === "items") continue; // the next one says what it is
      const name = at(keyword === "required" ? `#/${/"(.+?)"/.exec(error)?.[1] ?? ""}` : instanceLocation);
      if (!known.has(name)) problems[name] ??= { code: "schema", message: error };
    }
    return problems;
  } catch {
    return {}; // a schema that is none: the server says what it makes of it
  }
}

/** The field that `#/name/0` is about. */
function at(location: string): string {
  const first = location.replace(/^#\/?/, "").split("/")[0] ?? "";
  return decodeURIComponent(first).replaceAll("~1", "/").replaceAll("~0", "~");
}

import { describe, expect, it } from "vitest";

import { checked, fieldsOf, initial, outcome } from "@/pages/skill/schemaForm";

const SCHEMA = {
  type: "object",
  required: ["place"],
  additionalProperties: false,
  properties: {
    place: { type: "string", minLength: 2 },
    unit: { type: "string", enum: ["celsius", "fahrenheit"], default: "celsius" },
    days: { type: "integer", minimum: 0, maximum: 7, default: 0 },
    exact: { type: "boolean" },
    tags: { type: "array", items: { type: "string" } },
    filter: { type: "object", properties: { a: { type: "number" } } },
  },
};
const fields = fieldsOf(SCHEMA) ?? [];
const ask = (values: Record<string, string>) => outcome(SCHEMA, fields, { ...initial(fields), ...values });

describe("a form from a schema", () => {
  it("has one field for each property, of the kind that fits", () => {
    expect(fields.map(({ name, kind }) => [name, kind])).toEqual([
      ["place", "line"],
      ["unit", "choice"],
      ["days", "integer"],
      ["exact", "boolean"],
      ["tags", "list"],
      ["filter", "json"],
    ]);
  });

  it("begins with the defaults and leaves out what is empty", () => {
    expect(ask({ place: "Bern" })).toEqual({ parameters: { place: "Bern", unit: "celsius", days: 0 }, problems: {} });
  });

  it("reads each kind", () => {
    const given = ask({ place: "Bern", unit: '"fahrenheit"', days: "3", exact: "false", tags: "a\n\nb c\n", filter: '{"a": 1}' });
    expect(given.parameters).toEqual({ place: "Bern", unit: "fahrenheit", days: 3, exact: false, tags: ["a", "b c"], filter: { a: 1 } });
    expect(given.problems).toEqual({});
  });

  it("says what is needed and what is none of its kind", () => {
    expect(ask({ place: " ", days: "many", filter: "{" }).problems).toMatchObject({ filter: { code: "json" }, days: { code: "number" } });
    expect(ask({ place: "" }).problems).toEqual({ place: { code: "required" } });
    expect(ask({ place: "Bern", days: "1.5" }).problems).toEqual({ days: { code: "integer" } });
  });

  it("holds the values against the whole schema, field by field", () => {
    expect(Object.keys(ask({ place: "B", days: "9" }).problems).sort()).toEqual(["days", "place"]);
    expect(Object.keys(ask({ place: "Bern", filter: '{"a": "x"}' }).problems)).toEqual(["filter"]);
    expect(Object.keys(checked(SCHEMA, { place: "Bern", other: 1 }))).not.toEqual([]);
  });

  it("has none for a schema without properties, and no trouble with one that is none", () => {
    expect(fieldsOf({ type: "object" })).toBeUndefined();
    expect(fieldsOf("what")).toBeUndefined();
    expect(checked({ type: "nonsense", $ref: "#/nowhere" }, { a: 1 })).toEqual({});
  });

  it("keeps names that mean something to the language as they are", () => {
    const strange = { type: "object", properties: JSON.parse('{"__proto__": {"type": "string"}, "constructor": {"type": "string"}}') as object };
    const found = fieldsOf(strange) ?? [];
    const { parameters } = outcome(strange, found, Object.fromEntries(found.map(({ name }) => [name, "x"])));
    expect(JSON.stringify(parameters)).toBe('{"__proto__":"x","constructor":"x"}');
  });
});

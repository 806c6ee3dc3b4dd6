/** One field of a form that was made from a schema. */
import { NativeSelect, NumberInput, Textarea, TextInput } from "@mantine/core";

import { useText } from "@/i18n";
import { visible } from "@/parts/foreign";

import { running } from "./runWords";
import type { Field, Trouble } from "./schemaForm";

interface Props {
  field: Field;
  value: string;
  trouble: Trouble | undefined;
  set: (value: string) => void;
}

export function SchemaField({ field, value, trouble, set }: Props) {
  const t = useText(running);
  const { schema, kind, required } = field;
  const common = {
    label: visible(field.label),
    description: [visible(field.description), kind === "list" ? t.lines : ""].filter(Boolean).join(" · ") || undefined,
    withAsterisk: required,
    "aria-required": required,
    error: trouble && (trouble.code === "schema" ? trouble.message : t.troubles[trouble.code]),
    styles: { label: { overflowWrap: "anywhere" as const }, description: { overflowWrap: "anywhere" as const } },
  };
  const number = (name: string) => (typeof schema[name] === "number" ? { [name === "minimum" ? "min" : "max"]: schema[name] } : {});
  const choices = (options: readonly { value: string; label: string }[]) => [
    ...(required && value !== "" ? [] : [{ value: "", label: t.choose }]),
    ...options.map((option) => ({ value: option.value, label: visible(option.label) })),
  ];
  switch (kind) {
    case "integer":
    case "number":
      return (
        <NumberInput
          {...common}
          {...number("minimum")}
          {...number("maximum")}
          clampBehavior="none"
          allowDecimal={kind === "number"}
          value={value}
          onChange={(next) => set(String(next))}
          styles={{ ...common.styles, wrapper: { maxWidth: 280 } }}
        />
      );
    case "boolean":
      return (
        <NativeSelect
          {...common}
          styles={{ ...common.styles, wrapper: { maxWidth: 280 } }}
          value={value}
          onChange={(event) => set(event.currentTarget.value)}
          data={choices([
            { value: "true", label: t.yes },
            { value: "false", label: t.no },
          ])}
        />
      );
    case "choice":
      return <NativeSelect {...common} styles={{ ...common.styles, wrapper: { maxWidth: 420 } }} value={value} onChange={(event) => set(event.currentTarget.value)} data={choices(field.options)} />;
    case "line":
      return (
        <TextInput {...common} value={value} onChange={(event) => set(event.currentTarget.value)} placeholder={example(schema)} autoComplete="off" />
      );
    default:
      return (
        <Textarea
          {...common}
          value={value}
          onChange={(event) => set(event.currentTarget.value)}
          placeholder={example(schema)}
          autosize
          minRows={kind === "list" ? 2 : 3}
          maxRows={16}
          spellCheck={kind === "text"}
          styles={{ ...common.styles, input: kind === "json" ? { fontFamily: "var(--mantine-font-family-monospace)" } : {} }}
        />
      );
  }
}

/** The first example that the schema gives. */
function example(schema: Field["schema"]): string | undefined {
  const found = Array.isArray(schema.examples) ? (schema.examples[0] as unknown) : schema.example;
  return found === undefined ? undefined : visible(typeof found === "string" ? found : JSON.stringify(found)).slice(0, 120);
}

/** What programs and other clients are shown of an installed skill, and a form to say something else than its SKILL.md. */
import { Anchor, Badge, Box, Button, Group, Stack, TagsInput, Text, TextInput, Title } from "@mantine/core";
import { IconPencil } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { type Definition, type DefinitionEdit, definitionQuery, editDefinition } from "@/api/definitions";
import { useMay } from "@/api/scopes";
import { useText } from "@/i18n";
import { common } from "@/i18n/common";
import { FactList } from "@/parts/FactList";
import { FormDialog } from "@/parts/FormDialog";
import { FormFooter } from "@/parts/FormFooter";
import { notify } from "@/parts/notify";
import { visible } from "@/parts/foreign";

import { shown as table } from "./shownWords";

type Field = Exclude<keyof DefinitionEdit, "isActive">;
type Value = string | string[];

const FIELDS = ["category", "tags", "author", "homepageUrl", "documentationUrl", "iconUrl"] as const satisfies readonly Field[];
const ADDRESS = /^https?:\/\//i;

export function Shown({ id }: { id: string }) {
  const t = useText(table);
  const { data } = useQuery(definitionQuery(id));
  const [editing, setEditing] = useState(false);
  const writes = useMay("skills:write");
  if (!data) return null;
  return (
    <Box component="section" aria-label={t.title}>
      <Group justify="space-between" mb={2}>
        <Title order={2} size="h3">
          {t.title}
        </Title>
        {writes && (
          <Button size="compact-sm" variant="default" leftSection={<IconPencil size={14} />} onClick={() => setEditing(true)}>
            {t.edit}
          </Button>
        )}
      </Group>
      <Text size="xs" c="dimmed" mb="sm">
        {t.hint}
      </Text>
      <FactList
        stacked
        facts={FIELDS.map((field) => {
          const edited = data.edited.includes(field);
          const text = textOf(data[field]);
          if (!text && !edited) return [t.fields[field], null];
          return [
            t.fields[field],
            <Group gap={6} key={field}>
              <ShownText text={text || t.nothing} link={text !== ""} />
              {edited && (
                <Badge size="xs" variant="light">
                  {t.edited}
                </Badge>
              )}
            </Group>,
          ];
        })}
      />
      {editing && <Edit definition={data} close={() => setEditing(false)} />}
    </Box>
  );
}

function ShownText({ text, link }: { text: string; link: boolean }) {
  if (link && ADDRESS.test(text)) {
    return (
      <Anchor href={text} target="_blank" rel="noopener noreferrer nofollow ugc" size="sm" style={{ overflowWrap: "anywhere" }}>
        {visible(text)}
      </Anchor>
    );
  }
  return (
    <Text size="sm" style={{ overflowWrap: "anywhere" }}>
      <bdi>{visible(text)}</bdi>
    </Text>
  );
}

function Edit({ definition, close }: { definition: Definition; close: () => void }) {
  const t = useText(table);
  const c = useText(common);
  const cache = useQueryClient();
  const [changed, setChanged] = useState<Partial<Record<Field, Value | null>>>({});
  const saving = useMutation({
    mutationFn: editDefinition,
    onSuccess: async () => {
      await cache.invalidateQueries(definitionQuery(definition.id));
      notify({ message: t.saved, color: "green" });
      close();
    },
  });
  const change = (field: Field, value: Value | null) => setChanged((before) => ({ ...before, [field]: value }));
  const value = (field: Field): Value => changed[field] ?? (field in changed ? (field === "tags" ? [] : "") : (definition[field] ?? ""));
  const back = (field: Field) =>
    definition.edited.includes(field) &&
    changed[field] !== null && (
      <Button size="compact-xs" variant="subtle" onClick={() => change(field, null)}>
        {t.back}
      </Button>
    );
  return (
    <FormDialog opened close={close} unsaved={Object.keys(changed).length > 0} title={t.ask(visible(definition.name))} size="lg">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          saving.mutate({ id: definition.id, edit: changed as DefinitionEdit });
        }}
      >
        <Stack gap="md">
          {FIELDS.map((field) =>
            field === "tags" ? (
              <TagsInput
                key={field}
                label={t.fields[field]}
                description={changed[field] === null ? t.back : t.tagsHint}
                value={[value(field)].flat().filter(Boolean)}
                maxTags={50}
                onChange={(tags) => change(field, tags)}
                inputContainer={(input) => below(input, back(field))}
              />
            ) : (
              <TextInput
                key={field}
                label={t.fields[field]}
                description={changed[field] === null ? t.back : field.endsWith("Url") ? t.addressHint : undefined}
                value={String(value(field))}
                maxLength={field.endsWith("Url") ? 2000 : 200}
                onChange={({ currentTarget }) => change(field, currentTarget.value)}
                inputContainer={(input) => below(input, back(field))}
              />
            ),
          )}
          <FormFooter cancel={close} submit={c.save} busy={saving.isPending} disabled={Object.keys(changed).length === 0} error={saving.error} />
        </Stack>
      </form>
    </FormDialog>
  );
}

function below(input: React.ReactNode, more: React.ReactNode) {
  return (
    <>
      {input}
      {more}
    </>
  );
}

const textOf = (value: Definition[Field]): string => (Array.isArray(value) ? value.join(", ") : (value ?? ""));

/** Writes something down. */
import { Group, NativeSelect, NumberInput, Stack, Textarea, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { type MemoryBody, remember } from "@/api/memories";
import { useText } from "@/i18n";
import { common } from "@/i18n/common";
import { FormDialog } from "@/parts/FormDialog";
import { FormFooter } from "@/parts/FormFooter";
import { notify } from "@/parts/notify";

import { memory as table } from "./words";

const TYPES: readonly MemoryBody["type"][] = ["fact", "preference", "event", "summary"];

export function Remember({ opened, close }: { opened: boolean; close: () => void }) {
  const t = useText(table);
  const c = useText(common);
  const cache = useQueryClient();
  const [content, setContent] = useState("");
  const [type, setType] = useState<MemoryBody["type"]>("fact");
  const [importance, setImportance] = useState(0.5);
  const [tags, setTags] = useState("");
  const leave = () => {
    setContent("");
    setTags("");
    close();
  };
  const saving = useMutation({
    mutationFn: remember,
    onSuccess: async () => {
      leave();
      notify({ message: t.saved });
      await cache.invalidateQueries({ queryKey: ["memories"] });
    },
  });
  const named = tags
    .split(/[,，]/)
    .map((tag) => tag.trim())
    .filter(Boolean);
  return (
    <FormDialog opened={opened} close={leave} unsaved={content.trim() !== "" || named.length > 0} title={t.add}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          saving.mutate({ content: content.trim(), type, importance, tags: named });
        }}
      >
        <Stack gap="md">
          <Textarea label={t.content} value={content} onChange={({ currentTarget }) => setContent(currentTarget.value)} autosize minRows={3} maxRows={12} required data-autofocus />
          <Group grow align="flex-start">
            <NativeSelect
              label={t.type}
              data={TYPES.map((value) => ({ value, label: t.types[value] }))}
              value={type}
              onChange={({ currentTarget }) => setType(TYPES.find((one) => one === currentTarget.value) ?? "fact")}
            />
            <NumberInput label={t.importance} value={importance} min={0} max={1} step={0.1} onChange={(value) => setImportance(Number(value) || 0)} />
          </Group>
          <TextInput label={t.tags} description={t.tagsHint} value={tags} onChange={({ currentTarget }) => setTags(currentTarget.value)} />
          <FormFooter cancel={leave} submit={c.save} busy={saving.isPending} disabled={!content.trim()} error={saving.error} />
        </Stack>
      </form>
    </FormDialog>
  );
}

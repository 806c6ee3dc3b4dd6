/** Which of one's own collections a skill is in; a new one begins with it. */
import { Button, Checkbox, Group, Skeleton, Stack, Text, TextInput } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type SyntheticEvent, useState } from "react";

import { collect, collectionsQuery } from "@/api/kept";
import type { SkillDetail } from "@/api/skills";
import { useText } from "@/i18n";
import { catalog } from "@/pages/catalog/words";
import { Dialog } from "@/parts/Dialog";
import { visible } from "@/parts/foreign";
import { Loaded } from "@/parts/Loaded";
import { notifyProblem } from "@/parts/notify";

import { skill as table } from "./words";

export default function Collect({ skill, close }: { skill: SkillDetail; close: () => void }) {
  const t = useText(table);
  const c = useText(catalog);
  const cache = useQueryClient();
  const [name, setName] = useState("");
  const query = useQuery(collectionsQuery());
  const changing = useMutation({
    mutationFn: (change: { name: string; included: boolean }) => collect({ ...change, skill: skill.id }),
    onSuccess: async (collections, change) => {
      cache.setQueryData(collectionsQuery().queryKey, collections);
      if (change.included && change.name === name.trim()) setName("");
      await cache.invalidateQueries({ queryKey: ["catalog", "list"] });
    },
    onError: notifyProblem,
  });
  const add = (event: SyntheticEvent) => {
    event.preventDefault();
    if (name.trim()) changing.mutate({ name: name.trim(), included: true });
  };
  return (
    <Dialog opened close={close} title={t.collectWhere(visible(skill.display_name ?? skill.name))}>
      <Stack gap="md">
        <Text size="sm" c="dimmed">
          {t.collectWhy}
        </Text>
        <Loaded query={query} skeleton={<Skeleton h={60} />}>
          {(collections) => (
            <Stack gap="xs">
              {collections.map(({ name: one, skills }) => (
                <Checkbox
                  key={one}
                  label={<bdi>{visible(one)}</bdi>}
                  description={c.skillsIn(skills.length)}
                  checked={skills.includes(skill.id)}
                  disabled={changing.isPending}
                  onChange={({ currentTarget }) => changing.mutate({ name: one, included: currentTarget.checked })}
                  styles={{ label: { overflowWrap: "anywhere" } }}
                />
              ))}
            </Stack>
          )}
        </Loaded>
        <form onSubmit={add}>
          <Group gap="xs" wrap="nowrap" align="flex-end">
            <TextInput flex={1} label={t.collectNew} value={name} maxLength={80} onChange={({ currentTarget }) => setName(currentTarget.value)} data-autofocus />
            <Button type="submit" leftSection={<IconPlus size={16} />} disabled={!name.trim()} loading={changing.isPending}>
              {t.add}
            </Button>
          </Group>
        </form>
      </Stack>
    </Dialog>
  );
}

/** Asks for a key when the server wants one; what was refused meanwhile is asked again afterwards. */
import { Button, Group, Modal, PasswordInput, Stack, Text } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { signIn } from "@/api/keys";
import { asProblem } from "@/api/problem";

import { useText } from "@/i18n";
import { useMeaning } from "@/i18n/chinese";
import { common } from "@/i18n/common";

import { shell } from "./words";

export default function SignIn() {
  const t = useText(shell);
  const c = useText(common);
  const cache = useQueryClient();
  const [key, setKey] = useState("");
  const asking = useMutation({
    mutationFn: signIn,
    onSuccess: async () => {
      setKey("");
      await cache.resetQueries();
    },
  });
  const meaning = useMeaning("errors");
  const problem = asking.error ? asProblem(asking.error) : undefined;
  return (
    <Modal opened onClose={() => undefined} withCloseButton={false} title={t.signIn} centered>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          asking.mutate(key.trim());
        }}
      >
        <Stack gap="md">
          <Text size="sm">{t.signInWhy}</Text>
          <PasswordInput
            label={t.key}
            description={t.keyHint}
            value={key}
            onChange={(event) => setKey(event.currentTarget.value)}
            error={problem && (meaning(problem.code)?.title ?? (problem.message || c.unreachable))}
            autoComplete="current-password"
            data-autofocus
            required
          />
          <Text size="xs" c="dimmed">
            {t.keyKept}
          </Text>
          <Group justify="flex-end">
            <Button type="submit" loading={asking.isPending} disabled={!key.trim()}>
              {t.signIn}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}

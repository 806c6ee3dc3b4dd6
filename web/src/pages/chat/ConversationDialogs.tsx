/** Give a conversation another name, or delete it. */
import { Button, Group, Modal, Stack, Text, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";

import { changeConversation, type Conversation, deleteConversation } from "@/api/chat";
import { useText } from "@/i18n";
import { common } from "@/i18n/common";
import { Confirm } from "@/parts/Confirm";
import { ErrorState } from "@/parts/ErrorState";
import { visible } from "@/parts/foreign";
import { notify } from "@/parts/notify";

import { chat } from "./words";

interface Props {
  conversation: Conversation;
  close: () => void;
}

export function Rename({ conversation, close }: Props) {
  const t = useText(chat);
  const c = useText(common);
  const cache = useQueryClient();
  const [title, setTitle] = useState(conversation.title);
  const renaming = useMutation({
    mutationFn: changeConversation,
    onSuccess: async () => {
      close();
      await Promise.all([cache.invalidateQueries({ queryKey: ["chat", "list"] }), cache.invalidateQueries({ queryKey: ["chat", "one", conversation.id] })]);
    },
  });
  return (
    <Modal opened onClose={close} title={t.rename} centered closeButtonProps={{ "aria-label": c.close }}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          renaming.mutate({ id: conversation.id, title: title.trim() });
        }}
      >
        <Stack gap="md">
          {renaming.error && <ErrorState error={renaming.error} />}
          <TextInput label={t.renameTitle} value={title} maxLength={200} data-autofocus onChange={({ currentTarget }) => setTitle(currentTarget.value)} />
          <Group justify="flex-end" gap="sm">
            <Button variant="default" onClick={close}>
              {c.cancel}
            </Button>
            <Button type="submit" disabled={!title.trim()} loading={renaming.isPending}>
              {c.save}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}

export function Forget({ conversation, close }: Props) {
  const t = useText(chat);
  const cache = useQueryClient();
  const navigate = useNavigate();
  const { id } = useParams({ strict: false });
  const forgetting = useMutation({
    mutationFn: deleteConversation,
    onSuccess: async () => {
      close();
      notify({ message: t.removed });
      if (id === conversation.id) await navigate({ to: "/chat" });
      cache.removeQueries({ queryKey: ["chat", "one", conversation.id] });
      await cache.invalidateQueries({ queryKey: ["chat", "list"] });
    },
  });
  return (
    <Confirm opened close={close} title={t.removeAsk} action={t.remove} danger busy={forgetting.isPending} act={() => forgetting.mutate(conversation.id)}>
      {forgetting.error && <ErrorState error={forgetting.error} />}
      <Text size="sm" fw={560} mb={4}>
        <bdi>{visible(conversation.title)}</bdi>
      </Text>
      {t.removeWhy}
    </Confirm>
  );
}

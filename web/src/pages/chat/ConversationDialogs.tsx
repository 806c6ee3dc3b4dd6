/** Give a conversation another name, or delete it. */
import { Stack, Text, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";

import { changeConversation, type Conversation, deleteConversation } from "@/api/chat";
import { useText } from "@/i18n";
import { common } from "@/i18n/common";
import { Confirm } from "@/parts/Confirm";
import { Dialog } from "@/parts/Dialog";
import { ErrorState } from "@/parts/ErrorState";
import { visible } from "@/parts/foreign";
import { FormFooter } from "@/parts/FormFooter";
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
    <Dialog opened close={close} title={t.rename}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          renaming.mutate({ id: conversation.id, title: title.trim() });
        }}
      >
        <Stack gap="md">
          <TextInput label={t.renameTitle} value={title} maxLength={200} data-autofocus onChange={({ currentTarget }) => setTitle(currentTarget.value)} />
          <FormFooter cancel={close} submit={c.save} busy={renaming.isPending} disabled={!title.trim()} error={renaming.error} />
        </Stack>
      </form>
    </Dialog>
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

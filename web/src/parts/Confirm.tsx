/** Asks once more before something is done that cannot be seen beforehand. */
import { Button, Group, Modal, Stack, Text } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import type { ReactNode } from "react";

import { useText } from "@/i18n";
import { common } from "@/i18n/common";

import { ErrorState } from "./ErrorState";

interface Props {
  opened: boolean;
  close: () => void;
  title: string;
  children: ReactNode;
  /** What the button says, and what it does. */
  action: string;
  act: () => Promise<unknown>;
}

export function Confirm({ opened, close, title, children, action, act }: Props) {
  const t = useText(common);
  const acting = useMutation({ mutationFn: act, onSuccess: close });
  return (
    <Modal opened={opened} onClose={close} title={title} centered closeButtonProps={{ "aria-label": t.close }}>
      <Stack gap="md">
        <Text component="div" size="sm">
          {children}
        </Text>
        {acting.error && <ErrorState error={acting.error} />}
        <Group justify="flex-end" gap="sm">
          <Button variant="default" onClick={close} data-autofocus>
            {t.cancel}
          </Button>
          <Button color="red" loading={acting.isPending} onClick={() => acting.mutate()}>
            {action}
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}

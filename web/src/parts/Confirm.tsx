/** Asks before something is done that cannot be taken back at once. */
import { Button, Group, Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";

import { useText } from "@/i18n";
import { common } from "@/i18n/common";

import { Dialog } from "./Dialog";

interface Props {
  opened: boolean;
  title: string;
  /** What will happen, and what will stay. */
  children: ReactNode;
  /** The word on the button that does it. */
  action: string;
  danger?: boolean;
  busy?: boolean;
  act: () => unknown;
  close: () => void;
}

export function Confirm({ opened, title, children, action, danger = false, busy = false, act, close }: Props) {
  const t = useText(common);
  return (
    <Dialog opened={opened} close={close} title={title}>
      <Stack gap="lg">
        <Text component="div" size="sm" style={{ overflowWrap: "anywhere" }}>
          {children}
        </Text>
        <Group justify="flex-end" gap="sm">
          <Button variant="default" onClick={close} data-autofocus>
            {t.cancel}
          </Button>
          <Button {...(danger ? { color: "red" } : {})} loading={busy} onClick={() => void act()}>
            {action}
          </Button>
        </Group>
      </Stack>
    </Dialog>
  );
}

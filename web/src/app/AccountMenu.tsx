import { ActionIcon, Menu } from "@mantine/core";
import { IconLogout, IconUserCircle } from "@tabler/icons-react";
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { signOut } from "@/api/keys";
import type { components } from "@/api/schema";
import { useText } from "@/i18n";
import { visible } from "@/parts/foreign";
import { notifyProblem } from "@/parts/notify";

import { shell } from "./words";

export default function AccountMenu({ session }: { session: components["schemas"]["Session"] }) {
  const t = useText(shell);
  const cache = useQueryClient();
  const leaving = useMutation({ mutationFn: signOut, onSuccess: () => cache.resetQueries(), onError: notifyProblem });
  const name = visible([session.caller, session.organisation].filter(Boolean).join(" · "));
  return (
    <Menu position="bottom-end" withinPortal>
      <Menu.Target>
        <ActionIcon size="lg" aria-label={name}>
          <IconUserCircle size={20} stroke={1.6} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label maw={280}>{name}</Menu.Label>
        <Menu.Item leftSection={<IconLogout size={16} />} onClick={() => leaving.mutate()} disabled={leaving.isPending}>
          {t.signOut}
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

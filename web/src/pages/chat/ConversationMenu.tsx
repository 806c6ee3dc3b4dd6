/** What can be done with a conversation: another name, or away with it. */
import { ActionIcon, type ActionIconProps, Menu } from "@mantine/core";
import { IconDots, IconPencil, IconTrash } from "@tabler/icons-react";
import { useState } from "react";

import type { Conversation } from "@/api/chat";
import { useText } from "@/i18n";

import { Forget, Rename } from "./ConversationDialogs";
import { chat } from "./words";

interface Props extends Pick<ActionIconProps, "size" | "className"> {
  conversation: Conversation;
  /** Its name as it is shown. */
  title: string;
}

export function ConversationMenu({ conversation, title, ...button }: Props) {
  const t = useText(chat);
  const [asked, setAsked] = useState<"rename" | "forget">();
  const close = () => setAsked(undefined);
  return (
    <>
      <Menu position="bottom-end">
        <Menu.Target>
          <ActionIcon {...button} aria-label={t.doing(title)}>
            <IconDots size="60%" stroke={1.6} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item leftSection={<IconPencil size={16} />} onClick={() => setAsked("rename")}>
            {t.rename}
          </Menu.Item>
          <Menu.Item leftSection={<IconTrash size={16} />} color="red" onClick={() => setAsked("forget")}>
            {t.remove}
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      {asked === "rename" && <Rename conversation={conversation} close={close} />}
      {asked === "forget" && <Forget conversation={conversation} close={close} />}
    </>
  );
}

/** The skills that fit what is written after a `/`. */
import { Text } from "@mantine/core";

import type { ChatCommand } from "@/api/chat";
import { useText } from "@/i18n";
import { visible } from "@/parts/foreign";

import classes from "./Composer.module.css";
import { chat } from "./words";

interface Props {
  id: string;
  offered: readonly ChatCommand[];
  chosen: ChatCommand | undefined;
  take: (one: ChatCommand) => void;
}

export function Commands({ id, offered, chosen, take }: Props) {
  const t = useText(chat);
  return (
    <ul id={id} role="listbox" aria-label={t.commands} className={classes.commands}>
      {offered.map((one) => (
        // eslint-disable-next-line jsx-a11y/click-events-have-key-events -- the field handles the keys
        <li
          key={one.id}
          id={`${id}-${one.id}`}
          role="option"
          aria-selected={one.id === chosen?.id}
          className={classes.command}
          onMouseDown={(event) => event.preventDefault()}
          onClick={() => take(one)}
        >
          <Text size="sm" fw={560} component="span">
            <bdi>/{visible(one.name)}</bdi>
            {one.arguments && (
              <Text span size="sm" c="dimmed">
                {" "}
                <bdi>{visible(one.arguments)}</bdi>
              </Text>
            )}
          </Text>
          <Text size="xs" c="dimmed" truncate>
            <bdi>{visible(one.description)}</bdi>
          </Text>
        </li>
      ))}
    </ul>
  );
}

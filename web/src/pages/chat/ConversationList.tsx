/** The conversations, the one used last first, found by their names and by what was said. */
import { Box, Skeleton, Stack, Text, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { IconChartBar, IconPlus, IconSearch } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { type Conversation, conversationsQuery } from "@/api/chat";
import { useText } from "@/i18n";
import { AnchorLink, ButtonLink } from "@/parts/links";
import { visible } from "@/parts/foreign";
import { Loaded } from "@/parts/Loaded";

import classes from "./ConversationList.module.css";
import { ConversationMenu } from "./ConversationMenu";
import { chat } from "./words";

const DAY = 86_400_000;

export function ConversationList({ chosen }: { chosen: string | undefined }) {
  const t = useText(chat);
  const [text, setText] = useState("");
  const [wanted] = useDebouncedValue(text.trim(), 200);
  const query = useQuery(conversationsQuery(wanted));
  return (
    <Stack gap="sm" className={classes.all}>
      <ButtonLink to="/chat" variant="light" leftSection={<IconPlus size={16} />} fullWidth>
        {t.fresh}
      </ButtonLink>
      <TextInput
        size="sm"
        aria-label={t.find}
        placeholder={t.find}
        leftSection={<IconSearch size={15} />}
        value={text}
        maxLength={200}
        onChange={({ currentTarget }) => setText(currentTarget.value)}
      />
      <nav className={classes.scroll} aria-label={t.list}>
        <Loaded query={query} skeleton={<Waiting />}>
          {(found) =>
            found.length ? (
              <Groups found={found} chosen={chosen} />
            ) : (
              <Text size="sm" c="dimmed" px="xs">
                {wanted ? t.noneFits : t.none}
              </Text>
            )
          }
        </Loaded>
      </nav>
      <AnchorLink to="/chat/report" size="sm" c="dimmed" className={classes.report ?? ""}>
        <IconChartBar size={16} stroke={1.6} aria-hidden /> {t.reports}
      </AnchorLink>
    </Stack>
  );
}

function Waiting() {
  return (
    <Stack gap={6} aria-hidden>
      {[80, 64, 72, 50].map((width) => (
        <Skeleton key={width} h={32} w={`${width}%`} />
      ))}
    </Stack>
  );
}

function Groups({ found, chosen }: { found: readonly Conversation[]; chosen: string | undefined }) {
  const t = useText(chat);
  const [now] = useState(() => Date.now());
  const midnight = new Date(now).setHours(0, 0, 0, 0);
  const age = ({ updated_at }: Conversation) => {
    const at = new Date(updated_at).getTime();
    return at >= midnight ? "today" : at >= midnight - 7 * DAY ? "week" : "before";
  };
  return (
    <>
      {(["today", "week", "before"] as const).map((name) => {
        const group = found.filter((one) => age(one) === name);
        return (
          group.length > 0 && (
            <Box key={name} mb="sm">
              <Text size="xs" c="dimmed" fw={600} px={8} mb={2}>
                {t[name]}
              </Text>
              <ul className={classes.list}>
                {group.map((one) => (
                  <Row key={one.id} conversation={one} chosen={one.id === chosen} />
                ))}
              </ul>
            </Box>
          )
        );
      })}
    </>
  );
}

function Row({ conversation, chosen }: { conversation: Conversation; chosen: boolean }) {
  const t = useText(chat);
  const title = visible(conversation.title) || t.untitled;
  return (
    <li className={classes.row} data-chosen={chosen || undefined}>
      <Link to="/chat/$id" params={{ id: conversation.id }} className={classes.link} aria-current={chosen ? "page" : undefined} title={title}>
        <bdi>{title}</bdi>
      </Link>
      <ConversationMenu conversation={conversation} title={title} size="sm" className={classes.more ?? ""} />
    </li>
  );
}

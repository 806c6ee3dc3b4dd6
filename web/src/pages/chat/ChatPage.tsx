/** Conversations at the left, the one that is open in the middle, what stands beside it at the right. */
import { ActionIcon, Box, Drawer, Group, Text, Title, Tooltip } from "@mantine/core";
import { useLocalStorage, useMediaQuery } from "@mantine/hooks";
import { IconLayoutSidebarRight, IconMessages } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { conversationQuery, MOST_TURNS, TURNS } from "@/api/chat";
import { useText } from "@/i18n";
import { common } from "@/i18n/common";
import { Dropping } from "@/parts/Dropping";
import { ErrorState } from "@/parts/ErrorState";
import { visible } from "@/parts/foreign";
import { usePageTitle } from "@/parts/pageTitle";

import { Begin } from "./Begin";
import { useChoice } from "./choice";
import classes from "./ChatPage.module.css";
import { Composer } from "./Composer";
import { ConversationList } from "./ConversationList";
import { ConversationMenu } from "./ConversationMenu";
import { Panel, type PanelTab } from "./Panel";
import { useSending } from "./sending";
import { Pending, Thread } from "./Thread";
import { chat } from "./words";

const NARROW = "(max-width: 62em)"; // the list of conversations has no room
const MEDIUM = "(max-width: 87em)"; // the panel takes that of the list
const AT_ONCE = { getInitialValueInEffect: false };

export function ChatPage() {
  const t = useText(chat);
  const c = useText(common);
  const { id } = useParams({ strict: false });
  const { turn: wanted } = useSearch({ strict: false });
  const narrow = useMediaQuery(NARROW, false, AT_ONCE);
  const medium = useMediaQuery(MEDIUM, false, AT_ONCE);
  const [listed, setListed] = useState(false);
  const [looked, setLooked] = useState(false);
  const [kept, keep] = useLocalStorage({ key: "skillyard-chat-panel", defaultValue: true, getInitialValueInEffect: false });
  const [chosen, setTab] = useLocalStorage<PanelTab | null>({ key: "skillyard-chat-tab", defaultValue: null, getInitialValueInEffect: false });
  const [last, setLast] = useState(wanted ? MOST_TURNS : TURNS);
  const [at, setAt] = useState(id);
  if (at !== id) {
    setAt(id);
    setListed(false);
    setLast(wanted ? MOST_TURNS : TURNS);
  }
  const query = useQuery({ ...conversationQuery(id ?? "", last), enabled: id !== undefined });
  const conversation = query.data?.id === id ? query.data : undefined;
  const tab = chosen ?? (conversation?.settings.workspace === false ? "usage" : "files");
  const [choice, choose] = useChoice();
  const sending = useSending(id, conversation, choice);
  const title = conversation ? visible(conversation.title) || t.untitled : id ? t.title : t.fresh;
  usePageTitle(title);
  const beside = id !== undefined && !narrow && (medium ? looked : kept);
  const lists = !narrow && !(medium && beside);
  const openPanel = (wanted: PanelTab) => {
    setTab(wanted);
    if (medium) setLooked(true);
    else keep(true);
  };
  const list = <ConversationList chosen={id} />;
  const panel = conversation && <Panel conversation={conversation} tab={tab} setTab={setTab} />;
  return (
    <Box className={classes.frame} data-list={lists || undefined} data-panel={beside || undefined}>
      {lists && <aside className={classes.list} aria-label={t.list}>{list}</aside>}
      <Dropping take={sending.attach} className={classes.middle ?? ""} disabled={query.isError && id !== undefined}>
        <Group className={classes.head ?? ""} gap="xs" wrap="nowrap">
          {!lists && (
            <Tooltip label={t.showList}>
              <ActionIcon size="lg" aria-label={t.showList} onClick={() => (narrow ? setListed(true) : setLooked(false))}>
                <IconMessages size={19} stroke={1.6} />
              </ActionIcon>
            </Tooltip>
          )}
          <Box flex={1} miw={0}>
            <Title order={1} size="h3" className={classes.title}>
              <bdi>{title}</bdi>
            </Title>
            {conversation && (
              <Text size="xs" c="dimmed" truncate>
                <bdi>{[conversation.agent, conversation.model].filter(Boolean).map((one) => visible(one ?? "")).join(" · ")}</bdi>
              </Text>
            )}
          </Box>
          {conversation && <ConversationMenu conversation={conversation} title={title} size="lg" />}
          {conversation && (
            <Tooltip label={t.panel}>
              <ActionIcon size="lg" aria-label={t.panel} aria-pressed={medium ? looked : kept} onClick={() => (medium ? setLooked(!looked) : keep(!kept))}>
                <IconLayoutSidebarRight size={19} stroke={1.6} />
              </ActionIcon>
            </Tooltip>
          )}
        </Group>
        {id !== undefined && query.error && !conversation ? (
          <Box className={classes.column}>
            <ErrorState error={query.error} again={query.refetch} />
          </Box>
        ) : conversation ? (
          <Thread conversation={conversation} wanted={wanted} sending={sending} openPanel={openPanel} earlier={() => setLast((before) => before + TURNS)} />
        ) : id === undefined && !sending.pending ? (
          <Begin choice={choice} choose={choose} />
        ) : (
          <Box className={classes.scroll}>
            <Box className={classes.column}>{sending.pending && <Pending pending={sending.pending} />}</Box>
          </Box>
        )}
        <Composer key={id ?? "new"} place={id} conversation={conversation} sending={sending} unable={query.isError} />
      </Dropping>
      {beside && <aside className={classes.panel} aria-label={t.panel}>{panel}</aside>}
      <Drawer opened={narrow && listed} onClose={() => setListed(false)} title={t.list} size={300} closeButtonProps={{ "aria-label": c.close }} classNames={{ body: classes.drawer ?? "" }}>
        {list}
      </Drawer>
      <Drawer
        opened={narrow && looked}
        onClose={() => setLooked(false)}
        position="right"
        title={t.panel}
        size="min(100%, 420px)"
        closeButtonProps={{ "aria-label": c.close }}
        classNames={{ body: classes.drawer ?? "" }}
      >
        {panel}
      </Drawer>
    </Box>
  );
}

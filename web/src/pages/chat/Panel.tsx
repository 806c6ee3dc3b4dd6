/** What stands beside a conversation: how its skills were used, its files, and what holds for it. */
import { Box, Skeleton, Tabs } from "@mantine/core";
import { lazy, Suspense } from "react";

import type { ConversationDetail } from "@/api/chat";
import { fetched } from "@/api/parts";
import { useText } from "@/i18n";

import { About } from "./About";
import { Files } from "./Files";
import classes from "./Panel.module.css";
import { chat } from "./words";

const SkillUsage = lazy(() => fetched(import("./SkillUsage")).then(({ SkillUsage }) => ({ default: SkillUsage })));

export type PanelTab = "usage" | "files" | "about";

interface Props {
  conversation: ConversationDetail;
  tab: PanelTab;
  setTab: (tab: PanelTab) => void;
}

export function Panel({ conversation, tab, setTab }: Props) {
  const t = useText(chat);
  return (
    <Tabs value={tab} onChange={(value) => setTab((value ?? "usage") as PanelTab)} className={classes.panel ?? ""}>
      <Tabs.List grow mb="sm">
        <Tabs.Tab value="usage">{t.tabs.usage}</Tabs.Tab>
        <Tabs.Tab value="files">
          {t.tabs.files}
          {conversation.files.length > 0 && ` (${conversation.files.length})`}
        </Tabs.Tab>
        <Tabs.Tab value="about">{t.tabs.about}</Tabs.Tab>
      </Tabs.List>
      <Box className={classes.scroll} tabIndex={0} role="region" aria-label={t.tabs[tab]}>
        <Tabs.Panel value="usage">
          <Suspense fallback={<Skeleton h={120} />}>
            <SkillUsage conversation={conversation} />
          </Suspense>
        </Tabs.Panel>
        <Tabs.Panel value="files">
          <Files conversation={conversation} />
        </Tabs.Panel>
        <Tabs.Panel value="about">
          <About key={conversation.model} conversation={conversation} />
        </Tabs.Panel>
      </Box>
    </Tabs>
  );
}

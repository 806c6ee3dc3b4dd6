/** What stands beside a conversation: the files and the terminal of its workspace, how skills were used, and what holds for it. */
import { Box, Skeleton, Tabs } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { lazy, Suspense, useEffect } from "react";

import type { ConversationDetail } from "@/api/chat";
import { fetched } from "@/api/parts";
import { workspaceFilesQuery, workspaceKey } from "@/api/workspace";
import { useText } from "@/i18n";

import { About } from "./About";
import classes from "./Panel.module.css";
import { chat } from "./words";
import { workspace } from "./workspace/words";

const SkillUsage = lazy(() => fetched(import("./SkillUsage")).then(({ SkillUsage }) => ({ default: SkillUsage })));

const Files = lazy(() => fetched(import("./workspace/Files")).then(({ Files }) => ({ default: Files })));
const Terminal = lazy(() => fetched(import("./workspace/Terminal")).then(({ Terminal }) => ({ default: Terminal })));

export type PanelTab = "files" | "terminal" | "usage" | "about";

interface Props {
  conversation: ConversationDetail;
  tab: PanelTab;
  setTab: (tab: PanelTab) => void;
}

export function Panel({ conversation, tab, setTab }: Props) {
  const t = useText(chat);
  const w = useText(workspace);
  const cache = useQueryClient();
  const { id } = conversation;
  const last = conversation.turns.at(-1);
  // However it becomes known that a turn began, waits or is over: what stands here may have changed with it.
  useEffect(() => {
    void cache.invalidateQueries({ queryKey: ["chat", "trail", id] });
    void cache.invalidateQueries({ queryKey: workspaceKey(id) });
  }, [cache, id, last?.id, last?.state]);
  const files = useQuery(workspaceFilesQuery(conversation.id, false)).data?.entries.filter(({ kind }) => kind === "file").length ?? 0;
  const names: Record<PanelTab, string> = { files: w.tabs.files, terminal: w.tabs.terminal, usage: t.tabs.usage, about: t.tabs.about };
  return (
    <Tabs value={tab} onChange={(value) => setTab((value ?? "files") as PanelTab)} className={classes.panel ?? ""} classNames={{ tab: classes.tab }}>
      <Tabs.List grow mb="sm">
        <Tabs.Tab value="files">
          {names.files}
          {files > 0 && ` (${files})`}
        </Tabs.Tab>
        <Tabs.Tab value="terminal">{names.terminal}</Tabs.Tab>
        <Tabs.Tab value="usage">{names.usage}</Tabs.Tab>
        <Tabs.Tab value="about">{names.about}</Tabs.Tab>
      </Tabs.List>
      <Box className={classes.scroll} tabIndex={0} role="region" aria-label={names[tab]}>
        <Suspense fallback={<Skeleton h={120} />}>
          <Tabs.Panel value="files">
            <Files key={conversation.id} conversation={conversation.id} />
          </Tabs.Panel>
          <Tabs.Panel value="terminal" h="100%">
            <Terminal key={conversation.id} conversation={conversation} />
          </Tabs.Panel>
          <Tabs.Panel value="usage">
            <SkillUsage conversation={conversation} />
          </Tabs.Panel>
          <Tabs.Panel value="about">
            <About key={conversation.model} conversation={conversation} />
          </Tabs.Panel>
        </Suspense>
      </Box>
    </Tabs>
  );
}

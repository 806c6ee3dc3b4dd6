/** One agent, or a new one: written at the left, the prompt that a model gets at the right, at once. */
import { Badge, Button, Skeleton, Stack } from "@mantine/core";
import { IconDeviceFloppy, IconMessages, IconTrash } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { type ReactNode, useRef, useState } from "react";

import { type Agent, agentBody, type AgentBody, agentQuery, forgetAgent, keepAgent } from "@/api/agents";
import { useMay } from "@/api/scopes";
import { useText } from "@/i18n";
import { BackLink } from "@/parts/BackLink";
import { Confirm } from "@/parts/Confirm";
import { ErrorState } from "@/parts/ErrorState";
import { visible } from "@/parts/foreign";
import { Leaving } from "@/parts/Leaving";
import { ButtonLink } from "@/parts/links";
import { Loaded } from "@/parts/Loaded";
import { notify } from "@/parts/notify";
import { Page } from "@/parts/Page";

import { agents as table } from "../agents/words";
import { useChoice } from "../chat/choice";
import classes from "./AgentPage.module.css";
import { Draft } from "./Draft";
import { ExactPrompt } from "./ExactPrompt";

const route = getRouteApi("/agents/$id");
const EMPTY: AgentBody = { name: "", description: "", system_prompt: "", model: null, settings: {}, skills: [] };

export function AgentPage() {
  const { id } = route.useParams();
  return id === "new" ? <Editor key="new" kept={undefined} /> : <Kept key={id} id={id} />;
}

function Kept({ id }: { id: string }) {
  const t = useText(table);
  const query = useQuery(agentQuery(id));
  const waiting = (
    <Page title={t.title} width="wide">
      <Skeleton h={420} />
    </Page>
  );
  const failed = (why: ReactNode) => (
    <Page title={visible(id)} back={<BackLink to="/agents">{t.back}</BackLink>}>
      {why}
    </Page>
  );
  return (
    <Loaded query={query} skeleton={waiting} frame={failed}>
      {(agent) => <Editor key={agent.id} kept={agent} />}
    </Loaded>
  );
}

function Editor({ kept }: { kept: Agent | undefined }) {
  const t = useText(table);
  const cache = useQueryClient();
  const navigate = route.useNavigate();
  const [draft, setDraft] = useState<AgentBody>(() => (kept ? agentBody(kept) : EMPTY));
  const [asked, setAsked] = useState(false);
  const writes = useMay("skills:write");
  const chats = useMay("runs:execute");
  const [, choose] = useChoice();
  const settled = useRef(false); // what is written was saved or deleted, so leaving loses nothing
  const saving = useMutation({
    mutationFn: keepAgent,
    onSuccess: async (agent) => {
      settled.current = true;
      cache.setQueryData(agentQuery(agent.id).queryKey, agent);
      notify({ message: t.saved });
      await cache.invalidateQueries({ queryKey: ["agents", "list"] });
      if (!kept) await navigate({ to: "/agents/$id", params: { id: agent.id }, replace: true });
      settled.current = false;
    },
  });
  const forgetting = useMutation({
    mutationFn: forgetAgent,
    onSuccess: async () => {
      settled.current = true;
      notify({ message: t.forgotten });
      await navigate({ to: "/agents" });
      await cache.invalidateQueries({ queryKey: ["agents", "list"] });
    },
  });
  const changed = JSON.stringify(draft) !== JSON.stringify(kept ? agentBody(kept) : EMPTY);
  return (
    <Page
      title={kept ? visible(kept.name) : t.fresh}
      width="wide"
      back={<BackLink to="/agents">{t.back}</BackLink>}
      marks={changed && <Badge color="yellow">{t.unsaved}</Badge>}
      actions={
        <>
          {kept && chats && (
            <ButtonLink to="/chat" variant="default" leftSection={<IconMessages size={16} />} onClick={() => choose({ how: "agent", agent: kept.name })}>
              {t.chat}
            </ButtonLink>
          )}
          {kept && writes && (
            <Button variant="default" leftSection={<IconTrash size={16} />} onClick={() => setAsked(true)}>
              {t.forget}
            </Button>
          )}
          {writes && (
            <Button
              leftSection={<IconDeviceFloppy size={16} />}
              disabled={!draft.name.trim() || !changed}
              loading={saving.isPending}
              onClick={() => saving.mutate({ id: kept?.id, body: { ...draft, name: draft.name.trim() } })}
            >
              {t.save}
            </Button>
          )}
        </>
      }
    >
      <Stack gap="md">
        {saving.error && <ErrorState error={saving.error} />}
        <div className={classes.halves}>
          <Draft draft={draft} change={(part) => setDraft((before) => ({ ...before, ...part }))} error={saving.error} />
          <ExactPrompt draft={draft} />
        </div>
      </Stack>
      <Leaving unsaved={changed} settled={() => settled.current} />
      {kept && (
        <Confirm
          opened={asked}
          close={() => setAsked(false)}
          title={t.forgetAsk(visible(kept.name))}
          action={t.forget}
          danger
          busy={forgetting.isPending}
          act={() => forgetting.mutate(kept.id)}
        >
          {forgetting.error && <ErrorState error={forgetting.error} />}
          {t.forgetWhy}
        </Confirm>
      )}
    </Page>
  );
}

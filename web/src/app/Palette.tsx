/** The palette: pages, skills that fit the words, agents, conversations, runs by their ids, and what can be done from anywhere. */
import { useMantineColorScheme } from "@mantine/core";
import { createSpotlight, Spotlight, type SpotlightActionGroupData } from "@mantine/spotlight";
import "@mantine/spotlight/styles.css";
import { useDebouncedValue } from "@mantine/hooks";
import { IconHistory, IconLanguage, IconMessages, IconMoon, IconRobot, IconSearch, IconSun, IconTool } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";

import { agentsQuery } from "@/api/agents";
import { searchQuery } from "@/api/catalog";
import { conversationsQuery } from "@/api/chat";
import { runQuery } from "@/api/runs";
import { useMay } from "@/api/scopes";
import { language, speak, useText } from "@/i18n";

import { visible } from "@/parts/foreign";

import { caughtKeys, TAKES_KEYS } from "./earlyKeys";
import { usePlaces } from "./navigation";
import { shell } from "./words";

const [store, spotlight] = createSpotlight();
const RUN = /^run_[0-9a-f]{4,26}$/;
const SHOWN = 5;

/** Opens each time `wanted` grows. */
export default function Palette({ wanted }: { wanted: number }) {
  const t = useText(shell);
  const navigate = useNavigate();
  const { setColorScheme } = useMantineColorScheme();
  const [typed, setTyped] = useState("");
  const [question] = useDebouncedValue(typed.trim(), 120);
  const asked = question.length > 1;
  const found = useQuery({ ...searchQuery(question, 8), enabled: asked });
  const agents = useQuery({ ...agentsQuery(), enabled: asked });
  const talks = useQuery({ ...conversationsQuery(question), enabled: useMay("runs:execute", false) && asked }).data ?? [];
  const run = useQuery({ ...runQuery(question), enabled: RUN.test(question), retry: false }).data;
  useEffect(() => spotlight.open(), [wanted]);

  const needle = typed.trim().toLocaleLowerCase();
  const fits = (label: string) => label.toLocaleLowerCase().includes(needle);
  const pages = usePlaces().flatMap(({ places }) => places).map(({ id, to, icon: Icon }) => ({
    id,
    label: t.pages[id],
    leftSection: <Icon size={18} stroke={1.6} />,
    onClick: () => void navigate({ to }),
  }));
  const doing = [
    { id: "dark", label: t.dark, leftSection: <IconMoon size={18} stroke={1.6} />, onClick: () => setColorScheme("dark") },
    { id: "light", label: t.light, leftSection: <IconSun size={18} stroke={1.6} />, onClick: () => setColorScheme("light") },
    {
      id: "language",
      label: t.languageLabel,
      leftSection: <IconLanguage size={18} stroke={1.6} />,
      onClick: () => speak(language() === "en" ? "zh" : "en"),
    },
  ];
  const skills = (asked ? (found.data ?? []) : []).map(({ skill }) => ({
    id: `skill:${skill.id}`,
    label: visible(skill.name),
    description: visible(skill.description).slice(0, 120),
    leftSection: <IconTool size={18} stroke={1.6} />,
    onClick: () => void navigate({ to: "/skills/$id", params: { id: skill.id } }),
  }));
  const named = (asked ? (agents.data?.data ?? []).filter(({ name }) => fits(name)) : []).slice(0, SHOWN).map(({ id, name, description }) => ({
    id: `agent:${id}`,
    label: visible(name),
    description: visible(description).slice(0, 120),
    leftSection: <IconRobot size={18} stroke={1.6} />,
    onClick: () => void navigate({ to: "/agents/$id", params: { id } }),
  }));
  const said = (asked ? talks : []).slice(0, SHOWN).map(({ id, title }) => ({
    id: `chat:${id}`,
    label: visible(title) || id,
    leftSection: <IconMessages size={18} stroke={1.6} />,
    onClick: () => void navigate({ to: "/chat/$id", params: { id } }),
  }));
  const ran = (run && RUN.test(question) ? [run] : []).map(({ run_id, skill_name }) => ({
    id: `run:${run_id}`,
    label: visible(skill_name),
    description: run_id,
    leftSection: <IconHistory size={18} stroke={1.6} />,
    onClick: () => void navigate({ to: "/runs/$id", params: { id: run_id } }),
  }));
  const groups: SpotlightActionGroupData[] = [
    { group: t.findPages, actions: pages.filter((page) => fits(page.label)) },
    { group: t.pages.runs, actions: ran },
    { group: t.pages.agents, actions: named },
    { group: t.findSkills, actions: skills },
    { group: t.pages.chat, actions: said },
    { group: t.findDo, actions: doing.filter((action) => fits(action.label)) },
  ].filter(({ actions }) => actions.length > 0);
  const coming = found.isFetching || agents.isFetching || question !== typed.trim();
  const early = useFirst(groups.flatMap(({ actions }) => actions.map(({ id }) => id)).join(), typed !== "", coming);

  return (
    <Spotlight
      store={store}
      shortcut={null}
      actions={groups}
      filter={(_, actions) => actions}
      query={typed}
      onQueryChange={setTyped}
      nothingFound={coming ? t.finding : t.findEmpty}
      overlayProps={{ blur: 0, backgroundOpacity: 0.4 }}
      scrollable
      maxHeight="min(60vh, 480px)"
      searchProps={{ leftSection: <IconSearch size={18} stroke={1.6} />, placeholder: t.find, "aria-label": t.find, onKeyDown: early, onFocus: () => setTyped((before) => before + caughtKeys()), ...TAKES_KEYS }}
    />
  );
}

/** Enter takes the first of what is shown, also when it comes after Enter was pressed; gives what listens to keys. */
function useFirst(shown: string, typed: boolean, coming: boolean): (event: { key: string }) => void {
  const entered = useRef(false);
  useEffect(() => {
    const list = document.getElementById(store.getState().listId);
    const first = list?.querySelector<HTMLElement>("[data-action]");
    if (!typed || !first) return;
    list?.querySelector("[data-selected]")?.removeAttribute("data-selected");
    first.setAttribute("data-selected", "true");
    store.updateState((state) => ({ ...state, selected: 0 }));
    if (entered.current && !coming) {
      entered.current = false;
      first.click();
    }
  }, [shown, typed, coming]);
  return ({ key }) => {
    entered.current = key === "Enter" && !shown;
  };
}

/** The palette: every page, every skill that fits the words, and what can be done from anywhere. */
import { useMantineColorScheme } from "@mantine/core";
import { createSpotlight, Spotlight, type SpotlightActionGroupData } from "@mantine/spotlight";
import "@mantine/spotlight/styles.css";
import { useDebouncedValue } from "@mantine/hooks";
import { IconLanguage, IconMoon, IconSearch, IconSun, IconTool } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";

import { searchQuery } from "@/api/catalog";
import { language, speak, useText } from "@/i18n";

import { visible } from "@/parts/foreign";

import { NAVIGATION } from "./navigation";
import { shell } from "./words";

const [store, spotlight] = createSpotlight();

/** Opens each time `wanted` grows. */
export default function Palette({ wanted }: { wanted: number }) {
  const t = useText(shell);
  const navigate = useNavigate();
  const { setColorScheme } = useMantineColorScheme();
  const [typed, setTyped] = useState("");
  const [question] = useDebouncedValue(typed.trim(), 120);
  const found = useQuery({ ...searchQuery(question, 8), enabled: question.length > 1 });
  useEffect(() => spotlight.open(), [wanted]);

  const needle = typed.trim().toLocaleLowerCase();
  const fits = (label: string) => label.toLocaleLowerCase().includes(needle);
  const pages = NAVIGATION.flatMap(({ places }) => places).map(({ id, to, icon: Icon }) => ({
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
  const skills = (question.length > 1 ? (found.data ?? []) : []).map(({ skill }) => ({
    id: `skill:${skill.id}`,
    label: visible(skill.name),
    description: visible(skill.description).slice(0, 120),
    leftSection: <IconTool size={18} stroke={1.6} />,
    onClick: () => void navigate({ to: "/skills/$id", params: { id: skill.id } }),
  }));
  const groups: SpotlightActionGroupData[] = [
    { group: t.findPages, actions: pages.filter((page) => fits(page.label)) },
    { group: t.findSkills, actions: skills },
    { group: t.findDo, actions: doing.filter((action) => fits(action.label)) },
  ].filter(({ actions }) => actions.length > 0);

  return (
    <Spotlight
      store={store}
      shortcut={null}
      actions={groups}
      filter={(_, actions) => actions}
      query={typed}
      onQueryChange={setTyped}
      nothingFound={found.isFetching ? t.finding : t.findEmpty}
      overlayProps={{ blur: 0, backgroundOpacity: 0.4 }}
      scrollable
      maxHeight="min(60vh, 480px)"
      searchProps={{ leftSection: <IconSearch size={18} stroke={1.6} />, placeholder: t.find, "aria-label": t.find }}
    />
  );
}

/** The frame around every page: where one can go, what can be found, how it looks. */
import { ActionIcon, AppShell, Badge, Box, Burger, Group, NavLink, Text, Tooltip, useComputedColorScheme, useMantineColorScheme } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconMoon, IconSun } from "@tabler/icons-react";
import { Link, Outlet, useRouterState } from "@tanstack/react-router";
import { lazy, memo, Suspense, useEffect } from "react";

import { fetched } from "@/api/parts";
import { useWaiting } from "@/api/waiting";
import { language, speak, useText } from "@/i18n";
import { permission, useWanted } from "@/parts/notifying";
import { countInTitle } from "@/parts/pageTitle";

import { Account } from "./Account";
import { FindButton } from "./FindButton";
import { Mark } from "./Mark";
import { type Place, usePlaces } from "./navigation";
import classes from "./Shell.module.css";
import { SignInPlace } from "./SignInPlace";
import { shell } from "./words";

const Notifier = lazy(() => fetched(import("./Notifier")));

export function Shell() {
  const wanted = useWanted();
  const t = useText(shell);
  const [opened, { toggle, close }] = useDisclosure(false);
  useEffect(() => document.querySelector(".frame")?.remove(), []); // of index.html: this one is drawn
  return (
    <AppShell
      header={{ height: 52 }}
      navbar={{ width: 216, breakpoint: "sm", collapsed: { mobile: !opened } }}
      classNames={{ main: classes.main, header: classes.header, navbar: classes.navbar }}
      transitionDuration={120}
    >
      <a href="#content" className={classes.skip}>
        {t.skip}
      </a>
      <AppShell.Header>
        <Group h="100%" px="md" gap="sm" wrap="nowrap">
          <Burger opened={opened} onClick={toggle} hiddenFrom="sm" size="sm" aria-label={t.menu} />
          <Link to="/" className={classes.brand} aria-label={t.title}>
            <Mark />
            <Text component="span" fw={650} visibleFrom="xs">
              {t.title}
            </Text>
          </Link>
          <Box flex={1} />
          <FindButton />
          <LanguageButton />
          <SchemeButton />
          <Account />
        </Group>
      </AppShell.Header>
      <AppShell.Navbar aria-label={t.navigation}>
        <Places whenLeft={close} />
      </AppShell.Navbar>
      <AppShell.Main id="content" tabIndex={-1}>
        <Outlet />
      </AppShell.Main>
      <SignInPlace />
      <Suspense>{wanted.length > 0 && permission() === "granted" && <Notifier wanted={wanted} />}</Suspense>
    </AppShell>
  );
}

/** The pages, as links; apart from the frame, which nothing that is asked of the server draws again. */
function Places({ whenLeft }: { whenLeft: () => void }) {
  const t = useText(shell);
  const groups = usePlaces();
  const path = useRouterState({ select: (state) => state.location.pathname });
  useEffect(whenLeft, [path, whenLeft]);
  return (
    <AppShell.Section grow className={classes.places} px="xs" py="sm">
      {groups.map(({ group, places }) => (
        <Box key={group} mb="md">
          <Text size="xs" c="dimmed" fw={600} px="sm" mb={4}>
            {t.groups[group]}
          </Text>
          {places.map((place) => (
            <PlaceLink key={place.id} place={place} active={path === place.to || path.startsWith(`${place.to}/`)} />
          ))}
        </Box>
      ))}
    </AppShell.Section>
  );
}

/** One of them; drawn again when it becomes the open one, or is it no more. */
const PlaceLink = memo(function PlaceLink({ place: { id, to, icon: Icon }, active }: { place: Place; active: boolean }) {
  const t = useText(shell);
  return (
    <NavLink
      component={Link}
      to={to}
      label={t.pages[id]}
      leftSection={<Icon size={18} stroke={1.6} />}
      rightSection={id === "approvals" && <Waiting />}
      active={active}
      className={classes.place}
    />
  );
});

/** How many questions wait, here and in the title of the document. */
function Waiting() {
  const t = useText(shell);
  const waiting = useWaiting();
  useEffect(() => countInTitle(waiting), [waiting]);
  return waiting > 0 && <Badge color="yellow" aria-label={t.waiting(waiting)}>{waiting}</Badge>;
}

function LanguageButton() {
  const t = useText(shell);
  return (
    <Tooltip label={t.languageLabel}>
      <ActionIcon
        size="lg"
        lang={language() === "en" ? "zh-CN" : "en"}
        aria-label={t.languageLabel}
        onClick={() => speak(language() === "en" ? "zh" : "en")}
      >
        <Text component="span" size="sm" fw={600}>
          {language() === "en" ? "中" : "EN"}
        </Text>
      </ActionIcon>
    </Tooltip>
  );
}

function SchemeButton() {
  const t = useText(shell);
  const { setColorScheme } = useMantineColorScheme();
  const scheme = useComputedColorScheme("light");
  const label = scheme === "dark" ? t.light : t.dark;
  return (
    <Tooltip label={label}>
      <ActionIcon size="lg" aria-label={label} onClick={() => setColorScheme(scheme === "dark" ? "light" : "dark")}>
        {scheme === "dark" ? <IconSun size={18} stroke={1.6} /> : <IconMoon size={18} stroke={1.6} />}
      </ActionIcon>
    </Tooltip>
  );
}

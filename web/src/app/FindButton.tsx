/** Opens the palette, which is loaded when it is first wanted (Ctrl-K or Cmd-K, or the button). */
import { Kbd, Text, UnstyledButton, VisuallyHidden } from "@mantine/core";
import { useHotkeys } from "@mantine/hooks";
import { IconSearch } from "@tabler/icons-react";
import { lazy, Suspense, useEffect, useState } from "react";

import { fetched } from "@/api/parts";
import { useText } from "@/i18n";

import { catchKeys } from "./earlyKeys";
import classes from "./FindButton.module.css";
import { shell } from "./words";

const load = () => fetched(import("./Palette"));
const Palette = lazy(load);
const COMMAND = /mac|iphone|ipad/i.test(navigator.userAgent) ? "⌘" : "Ctrl";

export function FindButton() {
  const t = useText(shell);
  const [wanted, setWanted] = useState(0);
  const open = () => {
    catchKeys();
    setWanted((times) => times + 1);
  };
  useHotkeys([["mod+K", open]], []);
  useEffect(() => {
    const later = setTimeout(() => void load().catch(() => undefined), 2_000); // at hand before it is wanted, after the page itself
    return () => clearTimeout(later);
  }, []);
  return (
    <>
      <UnstyledButton className={classes.button} onClick={open} aria-keyshortcuts="Control+K Meta+K">
        <IconSearch size={16} stroke={1.8} aria-hidden />
        <Text component="span" size="sm" visibleFrom="sm" flex={1}>
          {t.find}
        </Text>
        <VisuallyHidden hiddenFrom="sm">{t.find}</VisuallyHidden>
        <Kbd size="xs" visibleFrom="sm" aria-hidden>
          {COMMAND} K
        </Kbd>
      </UnstyledButton>
      <Suspense>{wanted > 0 && <Palette wanted={wanted} />}</Suspense>
    </>
  );
}

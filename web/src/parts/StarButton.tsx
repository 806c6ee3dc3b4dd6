/** The star of a skill: of whoever looks, kept by the server. */
import { ActionIcon, Tooltip } from "@mantine/core";
import { IconStar, IconStarFilled } from "@tabler/icons-react";

import { useStar } from "@/api/kept";
import { useText, words } from "@/i18n";

import classes from "./StarButton.module.css";

const star = words(
  {
    give: (name: string) => `Star ${name}`,
    take: (name: string) => `Remove the star of ${name}`,
  },
  {
    give: (name) => `收藏 ${name}`,
    take: (name) => `取消收藏 ${name}`,
  },
);

interface Props {
  id: string;
  name: string;
  /** In pixels. */
  size: number;
  variant?: "subtle" | "default";
}

export function StarButton({ id, name, size, variant = "subtle" }: Props) {
  const t = useText(star);
  const { starred, known, set } = useStar(id);
  const label = starred ? t.take(name) : t.give(name);
  const Icon = starred ? IconStarFilled : IconStar;
  return (
    <Tooltip label={label}>
      <ActionIcon variant={variant} color="gray" size={size} aria-label={label} aria-pressed={starred} disabled={!known} className={classes.star ?? ""} data-starred={starred} onClick={() => set(!starred)}>
        <Icon size={Math.round(size / 2)} />
      </ActionIcon>
    </Tooltip>
  );
}

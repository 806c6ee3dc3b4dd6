/** The way back from one of many to all of them, above its title. */
import { IconArrowLeft } from "@tabler/icons-react";
import type { LinkProps } from "@tanstack/react-router";
import type { ReactNode } from "react";

import { AnchorLink } from "./links";

export function BackLink({ to, children }: { to: NonNullable<LinkProps["to"]>; children: ReactNode }) {
  return (
    <AnchorLink to={to} size="sm" c="dimmed">
      <IconArrowLeft size={14} style={{ verticalAlign: -2 }} aria-hidden /> {children}
    </AnchorLink>
  );
}

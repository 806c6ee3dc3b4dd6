/** Links of the page that look like something else; where they lead is checked by the types. */
import { Anchor, type AnchorProps, Badge, type BadgeProps, Button, type ButtonProps } from "@mantine/core";
import { createLink } from "@tanstack/react-router";
import type { AnchorHTMLAttributes, Ref } from "react";

type Own<P> = P & Omit<AnchorHTMLAttributes<HTMLAnchorElement>, keyof P> & { ref?: Ref<HTMLAnchorElement> };

export const ButtonLink = createLink((props: Own<ButtonProps>) => <Button component="a" {...props} />);
export const AnchorLink = createLink((props: Own<AnchorProps>) => <Anchor {...props} />);
export const BadgeLink = createLink((props: Own<BadgeProps>) => <Badge component="a" {...props} style={{ cursor: "pointer" }} />);

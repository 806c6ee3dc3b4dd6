/** The frame of one page: its title, what can be done on it, and its content at a readable width. */
import { Box, Group, Text, Title } from "@mantine/core";
import type { ReactNode } from "react";

import classes from "./Page.module.css";
import { usePageTitle } from "./pageTitle";

interface Props {
  title: string;
  /** The way back to the list that it is of, above the title. */
  back?: ReactNode;
  /** One line below the title. */
  lead?: ReactNode;
  /** Buttons at the right of the title. */
  actions?: ReactNode;
  /** Badges after the title. */
  marks?: ReactNode;
  /** "wide" takes the whole window, for tables and editors. */
  width?: "text" | "normal" | "wide";
  children: ReactNode;
}

export function Page({ title, back, lead, actions, marks, width = "normal", children }: Props) {
  usePageTitle(title);
  return (
    <Box className={classes.page} data-width={width}>
      {back && <Box className={classes.back}>{back}</Box>}
      <header className={classes.head}>
        <Group gap="4px 12px" align="center" className={classes.names ?? ""}>
          <Title order={1} className={classes.title}>
            <bdi>{title}</bdi>
          </Title>
          {marks}
        </Group>
        {lead !== undefined && (
          <Text component="div" c="dimmed" size="sm" maw={760} className={classes.lead ?? ""}>
            {lead}
          </Text>
        )}
        {actions && (
          <Group gap="xs" className={classes.actions ?? ""}>
            {actions}
          </Group>
        )}
      </header>
      {children}
    </Box>
  );
}

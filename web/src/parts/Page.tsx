/** The frame of one page: its title, what can be done on it, and its content at a readable width. */
import { Box, Group, Text, Title } from "@mantine/core";
import type { ReactNode } from "react";

import classes from "./Page.module.css";
import { usePageTitle } from "./pageTitle";

interface Props {
  title: string;
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

export function Page({ title, lead, actions, marks, width = "normal", children }: Props) {
  usePageTitle(title);
  return (
    <Box className={classes.page} data-width={width}>
      <Group justify="space-between" align="flex-start" gap="md" mb="lg" wrap="wrap">
        <Box flex="1 1 320px" miw={0}>
          <Group gap="sm" align="center">
            <Title order={1} className={classes.title}>
              <bdi>{title}</bdi>
            </Title>
            {marks}
          </Group>
          {lead !== undefined && (
            <Text component="div" c="dimmed" size="sm" mt={4} maw={760}>
              {lead}
            </Text>
          )}
        </Box>
        {actions && <Group gap="xs">{actions}</Group>}
      </Group>
      {children}
    </Box>
  );
}

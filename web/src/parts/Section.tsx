/** One part of a page under a heading of its own. */
import { Box, Group, Paper, Text, Title } from "@mantine/core";
import { type ReactNode, useId } from "react";

interface Props {
  title: string;
  /** One line beside or below the title. */
  lead?: ReactNode;
  actions?: ReactNode;
  /** Why there is nothing in it; then this is all it shows. */
  empty?: string | false | undefined;
  children?: ReactNode;
}

export function Section({ title, lead, actions, empty, children }: Props) {
  const id = useId();
  if (empty)
    return (
      <Paper component="section" aria-labelledby={id} px="md" py="sm" miw={0}>
        <Group gap="sm" align="baseline">
          <Title order={2} id={id} size="h3">
            {title}
          </Title>
          <Text size="sm" c="dimmed" component="span">
            {empty}
          </Text>
        </Group>
      </Paper>
    );
  return (
    <Paper component="section" aria-labelledby={id} p="md" miw={0}>
      <Group justify="space-between" align="center" gap="sm" mb="sm" wrap="wrap" mih={30}>
        <Group gap="sm" align="baseline">
          <Title order={2} id={id} size="h3">
            {title}
          </Title>
          {lead !== undefined && (
            <Text size="sm" c="dimmed" component="span">
              {lead}
            </Text>
          )}
        </Group>
        {actions}
      </Group>
      <Box miw={0}>{children}</Box>
    </Paper>
  );
}

/** That something is empty, in one line. */
export function Empty({ children }: { children: ReactNode }) {
  return (
    <Text size="sm" c="dimmed">
      {children}
    </Text>
  );
}

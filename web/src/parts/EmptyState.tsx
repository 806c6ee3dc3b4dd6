/** Nothing to show, why, and what to do about it. */
import { Stack, Text, ThemeIcon } from "@mantine/core";
import type { Icon } from "@tabler/icons-react";
import type { ReactNode } from "react";

interface Props {
  icon: Icon;
  title: string;
  hint?: ReactNode;
  /** Buttons or commands that lead on. */
  children?: ReactNode;
}

export function EmptyState({ icon: Icon, title, hint, children }: Props) {
  return (
    <Stack align="center" gap="sm" py={56} px="md" ta="center">
      <ThemeIcon size={52} radius="xl" variant="light" color="gray" aria-hidden>
        <Icon size={26} stroke={1.5} />
      </ThemeIcon>
      <Text fw={600}>{title}</Text>
      {hint !== undefined && (
        <Text size="sm" c="dimmed" maw={460}>
          {hint}
        </Text>
      )}
      {children}
    </Stack>
  );
}

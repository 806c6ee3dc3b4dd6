/** Settings that few need, folded away under one line. */
import { Collapse, Stack, UnstyledButton } from "@mantine/core";
import { IconChevronRight } from "@tabler/icons-react";
import { type ReactNode, useState } from "react";

import classes from "./More.module.css";

interface Props {
  label: string;
  /** Whether it is open at first: something in it is set already. */
  opened?: boolean;
  children: ReactNode;
}

export function More({ label, opened: atFirst = false, children }: Props) {
  const [opened, setOpened] = useState(atFirst);
  return (
    <div>
      <UnstyledButton className={classes.more ?? ""} aria-expanded={opened} onClick={() => setOpened(!opened)}>
        <IconChevronRight size={15} data-opened={opened || undefined} className={classes.arrow ?? ""} aria-hidden /> {label}
      </UnstyledButton>
      <Collapse expanded={opened}>
        <Stack gap="md" pt="md">
          {children}
        </Stack>
      </Collapse>
    </div>
  );
}

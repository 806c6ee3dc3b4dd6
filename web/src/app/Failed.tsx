/** What stands where a page should be and is not. */
import { Button, Container } from "@mantine/core";
import { IconError404 } from "@tabler/icons-react";
import { type ErrorComponentProps, Link } from "@tanstack/react-router";

import { useText } from "@/i18n";
import { common } from "@/i18n/common";
import { ErrorState } from "@/parts/ErrorState";
import { EmptyState } from "@/parts/EmptyState";

/** A page that threw: what it was, and a way on. */
export function Failed({ error, reset }: ErrorComponentProps) {
  return (
    <Container size="sm" py="xl">
      <ErrorState error={error} again={reset} />
    </Container>
  );
}

/** An address that leads nowhere. */
export function Missing() {
  const t = useText(common);
  return (
    <EmptyState icon={IconError404} title={t.missing} hint={t.missingHint}>
      <Button component={Link} to="/skills" variant="light">
        {t.home}
      </Button>
    </EmptyState>
  );
}

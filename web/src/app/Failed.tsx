/** What stands where a page should be and is not. */
import { Button, Container } from "@mantine/core";
import { IconError404, IconPlugConnectedX, IconRefresh } from "@tabler/icons-react";
import { type ErrorComponentProps, Link } from "@tanstack/react-router";
import { useEffect } from "react";

import { answers } from "@/api/parts";
import { asProblem } from "@/api/problem";
import { useText } from "@/i18n";
import { common } from "@/i18n/common";
import { ErrorState } from "@/parts/ErrorState";
import { EmptyState } from "@/parts/EmptyState";

const LOOK_AGAIN_MS = 2_000;

/** A page that threw: what it was, and a way on. */
export function Failed({ error, reset }: ErrorComponentProps) {
  const { code } = asProblem(error);
  return (
    <Container size="sm" py="xl" role="alert">
      {code === "unreachable" || code === "page_outdated" ? <NotFetched gone={code === "unreachable"} /> : <ErrorState error={error} again={reset} />}
    </Container>
  );
}

/** A page whose script could not be fetched: it is loaded again, whole, as soon as there is a server to load it from. */
function NotFetched({ gone }: { gone: boolean }) {
  const t = useText(common);
  useEffect(() => {
    if (!gone) return;
    const timer = setInterval(() => void loadAgain(), LOOK_AGAIN_MS);
    return () => clearInterval(timer);
  }, [gone]);
  return (
    <EmptyState icon={gone ? IconPlugConnectedX : IconRefresh} title={gone ? t.unreachable : t.outdated} hint={gone ? t.goesOn : t.outdatedHint}>
      <Button variant="light" onClick={() => void loadAgain()}>
        {gone ? t.again : t.reload}
      </Button>
    </EmptyState>
  );
}

/** Never from a server that does not answer: the browser would put a page of its own in this one's place. */
async function loadAgain(): Promise<void> {
  if (await answers()) window.location.reload();
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

/** Who the page speaks for, and the way out; nothing for the user of the server's own machine. */
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense } from "react";

import { sessionQuery } from "@/api/keys";
import { fetched } from "@/api/parts";

const AccountMenu = lazy(() => fetched(import("./AccountMenu")));

export function Account() {
  const session = useQuery(sessionQuery()).data;
  return <Suspense>{session?.session && <AccountMenu session={session} />}</Suspense>;
}

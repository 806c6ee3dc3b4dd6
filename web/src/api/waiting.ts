/** How many questions wait for the answer of who looks at the page. */
import { useQuery } from "@tanstack/react-query";

import { questionsQuery } from "./approvals";
import { sessionQuery } from "./keys";

const LOOK_MS = 20_000; // the page of approvals looks more often

/** The number of open questions; 0 for whoever may not answer them, and while it is not known. */
export function useWaiting(): number {
  const scopes = useQuery(sessionQuery()).data?.scopes ?? [];
  const questions = useQuery({ ...questionsQuery(), refetchInterval: LOOK_MS, enabled: scopes.includes("admin") });
  return questions.data?.length ?? 0;
}

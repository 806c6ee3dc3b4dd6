/** What waits for the answer of who looks at the page: runs for an administrator, conversations for whoever began them, versions for who may approve them. */
import { useQuery } from "@tanstack/react-query";

import { questionsQuery, type VersionToApprove, waitingVersionsQuery } from "./approvals";
import { chatQuestionsQuery } from "./chat";
import { useMay } from "./scopes";

const LOOK_MS = 20_000; // the page of approvals looks more often

/** The number of open questions and of versions to approve; 0 while it is not known. */
export function useWaiting(): number {
  // Numbers, so that a list that was asked for again draws nothing again.
  const runs = useQuery({ ...questionsQuery(), refetchInterval: LOOK_MS, enabled: useMay("admin", false), select: ({ length }) => length });
  const chats = useQuery({ ...chatQuestionsQuery(), refetchInterval: LOOK_MS, enabled: useMay("runs:execute", false), select: ({ length }) => length });
  const versions = useQuery({ ...waitingVersionsQuery(), refetchInterval: LOOK_MS, enabled: useMay("skills:approve", false), select: answerable });
  return (runs.data ?? 0) + (chats.data ?? 0) + (versions.data ?? 0);
}

const answerable = (versions: readonly VersionToApprove[]): number => versions.filter(({ refusal }) => refusal === null).length;

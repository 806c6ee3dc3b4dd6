/** A question to the server on the page: its place while it loads, why it failed, or what came. */
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";

import { ErrorState } from "./ErrorState";

interface Props<D> {
  query: UseQueryResult<D>;
  /** As large as what will come, so that nothing jumps. */
  skeleton: ReactNode;
  /** Where the data are the whole page: the frame of what failed. */
  frame?: (failed: ReactNode) => ReactNode;
  children: (data: D) => ReactNode;
}

export function Loaded<D>({ query, skeleton, frame = (failed) => failed, children }: Props<D>) {
  const trouble = query.error ?? query.failureReason;
  if (query.data !== undefined)
    return (
      <>
        {trouble && <ErrorState error={trouble} again={query.refetch} />}
        {children(query.data)}
      </>
    );
  return trouble ? frame(<ErrorState error={trouble} again={query.refetch} />) : skeleton;
}

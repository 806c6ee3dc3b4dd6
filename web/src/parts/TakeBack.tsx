/** Takes back the one of a list that was chosen, after it asked: a key, an agreement, a memory. */
import { type QueryKey, useMutation, useQueryClient } from "@tanstack/react-query";
import type { ReactNode } from "react";

import { Confirm } from "./Confirm";
import { ErrorState } from "./ErrorState";

interface Props<Item> {
  /** What is to be taken back; without one nothing is asked. */
  chosen: Item | undefined;
  leave: () => void;
  act: (item: Item) => Promise<unknown>;
  /** What is asked again from the server then, whether it went well or not. */
  stale: QueryKey;
  title: string;
  action: string;
  /** What it is, or what will happen. */
  children: (item: Item) => ReactNode;
}

export function TakeBack<Item>({ chosen, leave, act, stale, title, action, children }: Props<Item>) {
  const cache = useQueryClient();
  const acting = useMutation({
    mutationFn: act,
    onSuccess: leave,
    onSettled: () => cache.invalidateQueries({ queryKey: stale }),
  });
  return (
    <Confirm
      opened={chosen !== undefined}
      close={leave}
      title={title}
      action={action}
      danger
      busy={acting.isPending}
      act={() => chosen !== undefined && acting.mutate(chosen)}
    >
      {acting.error && <ErrorState error={acting.error} />}
      <bdi>{chosen !== undefined && children(chosen)}</bdi>
    </Confirm>
  );
}

/** A long list that comes in pages, under a line that counts it. */
import { Text } from "@mantine/core";
import type { InfiniteData, UseInfiniteQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";

import { Loaded } from "./Loaded";
import { LongList, LongListSkeleton } from "./LongList";

interface Paged<Item> {
  data: readonly Item[];
  meta: { total: number };
}

interface Props<Item> {
  query: UseInfiniteQueryResult<InfiniteData<Paged<Item>>>;
  label: string;
  /** How many there are, in words. */
  count: (total: number) => string;
  /** How high one row is, in pixels. */
  high: number;
  row: (item: Item) => ReactNode;
  /** The rows that stand below one that is open, as high as it. */
  below?: (item: Item) => readonly ReactNode[];
  /** A row that has not come. */
  place: ReactNode;
  /** What is shown when there is none. */
  none: ReactNode;
}

export function PagedList<Item>({ query, label, count, high, row, below, place, none }: Props<Item>) {
  return (
    <Loaded query={query} skeleton={<LongListSkeleton high={high} place={place} />}>
      {({ pages }) => {
        const total = pages.at(-1)?.meta.total ?? 0;
        if (!total) return none;
        const items = pages.flatMap(({ data }) => data);
        const rows = items.flatMap((item) => [() => row(item), ...(below?.(item).map((node) => () => node) ?? [])]);
        return (
          <>
            <Text size="sm" c="dimmed" role="status">
              {count(total)}
            </Text>
            <LongList
              label={label}
              items={rows}
              total={total + rows.length - items.length}
              high={high}
              row={(draw) => draw()}
              place={place}
              more={query.hasNextPage && !query.isFetching ? query.fetchNextPage : undefined}
            />
          </>
        );
      }}
    </Loaded>
  );
}

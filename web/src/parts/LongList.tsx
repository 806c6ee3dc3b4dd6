/** A long list of which only what is on the screen is drawn; the next page is asked for on the way down. */
import { Box } from "@mantine/core";
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useEffect, useLayoutEffect, useRef, useState } from "react";

import classes from "./LongList.module.css";

interface Props<T> {
  label: string;
  items: readonly T[];
  /** How many there are in all; the rest is drawn as places until it comes. */
  total: number;
  /** How high one row is, in pixels. */
  high: number;
  row: (item: T) => ReactNode;
  /** A row that has not come. */
  place: ReactNode;
  /** Asked when the list is near its end. */
  more?: (() => unknown) | undefined;
}

export function LongList<T>({ label, items, total, high, row, place, more }: Props<T>) {
  const list = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  useLayoutEffect(() => setTop(list.current?.offsetTop ?? 0), []);
   
  const rows = useWindowVirtualizer({ count: total, estimateSize: () => high, overscan: 8, scrollMargin: top });
  const shown = rows.getVirtualItems();
  const last = shown.at(-1)?.index ?? 0;
  useEffect(() => {
    if (more && last >= items.length - 1 && items.length < total) more();
  }, [more, last, items.length, total]);
  useEffect(() => rows.measure(), [rows, high]);
  return (
    <Box ref={list} role="list" aria-label={label} className={classes.list} style={{ height: rows.getTotalSize() }}>
      {shown.map(({ index, key, start }) => {
        const item = items[index];
        return (
          <Box
            key={key}
            role="listitem"
            aria-setsize={total}
            aria-posinset={index + 1}
            className={classes.place}
            style={{ transform: `translateY(${start - top}px)`, height: high }}
          >
            {item === undefined ? place : row(item)}
          </Box>
        );
      })}
    </Box>
  );
}

/** The list before its first page has come. */
export function LongListSkeleton({ high, place, rows = 8 }: { high: number; place: ReactNode; rows?: number }) {
  return (
    <Box className={classes.list} aria-hidden>
      {Array.from({ length: rows }, (_, row) => (
        <Box key={row} style={{ height: high }}>
          {place}
        </Box>
      ))}
    </Box>
  );
}

/** A list of rows of one height: drawn whole while it is short; of a long one only what is on the screen is drawn. */
import { Box } from "@mantine/core";
import { lazy, type ReactNode, Suspense } from "react";

import { fetched } from "@/api/parts";

import classes from "./LongList.module.css";
import type { Rows } from "./VirtualRows";

const SHORT = 100; // rows that a browser draws at once without being felt

const VirtualRows = lazy(() => fetched(import("./VirtualRows")));

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
  const whole = total <= SHORT && items.length >= total;
  const draw: Rows["draw"] = (index, place) => (items[index] === undefined ? place : row(items[index]));
  return (
    <Box role="list" aria-label={label} className={classes.list}>
      {whole ? (
        items.map((item, index) => (
          <Box key={index} role="listitem" style={{ height: high }}>
            {row(item)}
          </Box>
        ))
      ) : (
        <Suspense fallback={<Box style={{ height: total * high }} />}>
          <VirtualRows total={total} have={items.length} high={high} draw={draw} place={place} more={more} />
        </Suspense>
      )}
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

/** The rows of a long list that are on the screen; the next page is asked for on the way down. */
import { Box } from "@mantine/core";
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useEffect, useLayoutEffect, useRef, useState } from "react";

import classes from "./LongList.module.css";

export interface Rows {
  total: number;
  /** How many have come. */
  have: number;
  high: number;
  draw: (index: number, place: ReactNode) => ReactNode;
  place: ReactNode;
  more?: (() => unknown) | undefined;
}

export default function VirtualRows({ total, have, high, draw, place, more }: Rows) {
  const list = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  useLayoutEffect(() => setTop(list.current ? list.current.getBoundingClientRect().top + window.scrollY : 0), []);
  const rows = useWindowVirtualizer({ count: total, estimateSize: () => high, overscan: 8, scrollMargin: top });
  const shown = rows.getVirtualItems();
  const last = shown.at(-1)?.index ?? 0;
  useEffect(() => {
    if (more && last >= have - 1 && have < total) more();
  }, [more, last, have, total]);
  useEffect(() => rows.measure(), [rows, high]);
  return (
    <Box ref={list} className={classes.long} style={{ height: rows.getTotalSize() }}>
      {shown.map(({ index, key, start }) => (
        <Box
          key={key}
          role="listitem"
          aria-setsize={total}
          aria-posinset={index + 1}
          className={classes.place}
          style={{ transform: `translateY(${start - top}px)`, height: high }}
        >
          {draw(index, place)}
        </Box>
      ))}
    </Box>
  );
}

/** A long list of skills of which only what is on the screen is drawn; the next page is asked for on the way down. */
import { Box, Skeleton } from "@mantine/core";
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useLayoutEffect, useRef, useState } from "react";

import type { Entry, Fit } from "@/api/catalog";

import { ROW, SkillRow } from "./SkillRow";
import classes from "./SkillList.module.css";

export interface Listed {
  skill: Entry;
  fit?: Fit;
}

interface Props {
  label: string;
  skills: readonly Listed[];
  /** How many there are in all; the rest is drawn as places until it comes. */
  total: number;
  /** Asked when the list is near its end. */
  more?: () => unknown;
}

export function SkillList({ label, skills, total, more }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  useLayoutEffect(() => setTop(place.current?.offsetTop ?? 0), []);
  const high = skills.some(({ fit }) => fit) ? ROW.fitting : ROW.plain;
   
  const rows = useWindowVirtualizer({ count: total, estimateSize: () => high, overscan: 8, scrollMargin: top });
  const shown = rows.getVirtualItems();
  const last = shown.at(-1)?.index ?? 0;
  useEffect(() => {
    if (more && last >= skills.length - 1 && skills.length < total) more();
  }, [more, last, skills.length, total]);
  useEffect(() => rows.measure(), [rows, high]);
  return (
    <Box ref={place} role="list" aria-label={label} className={classes.list} style={{ height: rows.getTotalSize() }}>
      {shown.map(({ index, key, start }) => {
        const listed = skills[index];
        return (
          <Box
            key={key}
            role="listitem"
            aria-setsize={total}
            aria-posinset={index + 1}
            className={classes.place}
            style={{ transform: `translateY(${start - top}px)`, height: high }}
          >
            {listed ? <SkillRow {...listed} /> : <RowSkeleton />}
          </Box>
        );
      })}
    </Box>
  );
}

/** The list before its first page has come. */
export function ListSkeleton({ rows = 8 }: { rows?: number }) {
  return (
    <Box className={classes.list} aria-hidden>
      {Array.from({ length: rows }, (_, row) => (
        <RowSkeleton key={row} />
      ))}
    </Box>
  );
}

function RowSkeleton() {
  return (
    <Box className={classes.skeleton} style={{ height: ROW.plain }}>
      <Skeleton h={14} w="24%" />
      <Skeleton h={12} w="86%" />
      <Skeleton h={12} w="58%" />
    </Box>
  );
}

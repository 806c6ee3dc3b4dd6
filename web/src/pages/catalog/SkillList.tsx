/** The skills, one below the other; of a long list only what is on the screen is drawn. */
import { Box, Skeleton } from "@mantine/core";

import type { Entry, SearchMatch } from "@/api/catalog";
import { LongList, LongListSkeleton } from "@/parts/LongList";

import classes from "./SkillList.module.css";
import { SkillRow, useRowHeights } from "./SkillRow";

export interface Listed {
  skill: Entry;
  fit?: SearchMatch;
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
  const heights = useRowHeights();
  const high = skills.some(({ fit }) => fit) ? heights.fitting : heights.plain;
  return (
    <LongList label={label} items={skills} total={total} high={high} row={(listed) => <SkillRow {...listed} />} place={<RowSkeleton />} more={more} />
  );
}

/** The list before its first page has come. */
export function ListSkeleton({ rows = 8 }: { rows?: number }) {
  return <LongListSkeleton high={useRowHeights().plain} place={<RowSkeleton />} rows={rows} />;
}

function RowSkeleton() {
  return (
    <Box className={classes.skeleton} style={{ height: useRowHeights().plain }}>
      <Skeleton h={14} w="24%" />
      <Skeleton h={12} w="86%" />
      <Skeleton h={12} w="58%" />
    </Box>
  );
}

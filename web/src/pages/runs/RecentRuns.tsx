/** The newest runs of something, and the way to all of them. */
import { Box } from "@mantine/core";
import type { InfiniteData, UseInfiniteQueryResult } from "@tanstack/react-query";

import type { RunSummary } from "@/api/runs";
import type { RunsSearch } from "@/app/search";
import { AnchorLink } from "@/parts/links";
import { Loaded } from "@/parts/Loaded";
import { Empty, Section } from "@/parts/Section";

import { RunPlace, RunRow } from "./RunRow";
import classes from "./RunRow.module.css";

interface Props {
  title: string;
  /** What is shown when there is none. */
  none: string;
  /** Only its first page is shown. */
  query: UseInfiniteQueryResult<InfiniteData<{ data: readonly RunSummary[] }>>;
  all: { label: string; search: RunsSearch };
}

export function RecentRuns({ title, none, query, all }: Props) {
  return (
    <Section
      title={title}
      actions={
        <AnchorLink to="/runs" search={all.search} size="sm">
          {all.label}
        </AnchorLink>
      }
    >
      <Loaded query={query} skeleton={<RunPlace />}>
        {({ pages }) => {
          const runs = pages[0]?.data ?? [];
          return runs.length > 0 ? (
            <Box mx="calc(var(--mantine-spacing-md) * -1)" mb="calc(var(--mantine-spacing-md) * -1)" className={classes.recent ?? ""}>
              {runs.map((run) => (
                <RunRow key={run.run_id} run={run} />
              ))}
            </Box>
          ) : (
            <Empty>{none}</Empty>
          );
        }}
      </Loaded>
    </Section>
  );
}

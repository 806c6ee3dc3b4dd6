/** Where the time, the tokens and the money of one turn went. */
import { Paper, Skeleton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import type { Turn } from "@/api/chat";
import { turnTimelineQuery } from "@/api/timeline";
import { Loaded } from "@/parts/Loaded";

import { Waterfall } from "../run/Waterfall";

export default function TurnTimeline({ turn }: { turn: Turn }) {
  const query = useQuery(turnTimelineQuery(turn));
  return (
    <Paper p="sm" miw={0}>
      <Loaded query={query} skeleton={<Skeleton h={120} />}>
        {(found) => <Waterfall timeline={found} />}
      </Loaded>
    </Paper>
  );
}

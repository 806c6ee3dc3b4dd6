/** One skill. */
import { Skeleton, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { lazy, Suspense } from "react";

import { fileAddress, fileQuery } from "@/api/files";
import { Loaded } from "@/parts/Loaded";
import { Page } from "@/parts/Page";

import { body } from "./frontMatter";

const Markdown = lazy(() => import("@/parts/Markdown"));
const route = getRouteApi("/skills/$id");

export function SkillPage() {
  const { id } = route.useParams();
  const text = useQuery(fileQuery(id, "SKILL.md"));
  return (
    <Page title={id.slice(id.indexOf(":") + 1)} width="text">
      <Loaded query={text} skeleton={<TextSkeleton />}>
        {(found) => (
          <Suspense fallback={<TextSkeleton />}>
            <Markdown picture={(path) => fileAddress(id, path)}>{body(found)}</Markdown>
          </Suspense>
        )}
      </Loaded>
    </Page>
  );
}

function TextSkeleton() {
  return (
    <Stack gap="sm" aria-hidden>
      {[38, 92, 86, 95, 60, 90, 82].map((width) => (
        <Skeleton key={width} h={14} w={`${width}%`} />
      ))}
    </Stack>
  );
}

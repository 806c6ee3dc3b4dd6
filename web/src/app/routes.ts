/** Every address of the page, and the part that is loaded for it. */
import { createRootRoute, createRoute, createRouter, lazyRouteComponent, redirect } from "@tanstack/react-router";

import { RUN_STATES, type RunState } from "@/api/runStates";

import { Failed, Missing } from "./Failed";
import { Shell } from "./Shell";

const root = createRootRoute({ component: Shell, notFoundComponent: Missing });

const home = createRoute({
  getParentRoute: () => root,
  path: "/",
  beforeLoad: () => {
    throw redirect({ to: "/skills", replace: true });
  },
});

const text = (value: unknown): string | undefined => (typeof value === "string" && value ? value : undefined);

/** What the list of skills is narrowed to; it stands in the address, so that it can be sent to somebody. */
export interface CatalogSearch {
  q?: string | undefined;
  source?: string | undefined;
  state?: string | undefined;
  tag?: string | undefined;
}

const skills = createRoute({
  getParentRoute: () => root,
  path: "/skills",
  validateSearch: (found: Record<string, unknown>): CatalogSearch => ({
    q: text(found.q),
    source: text(found.source),
    state: text(found.state),
    tag: text(found.tag),
  }),
  component: lazyRouteComponent(() => import("@/pages/catalog/CatalogPage"), "CatalogPage"),
});

const skill = createRoute({
  getParentRoute: () => root,
  path: "/skills/$id",
  validateSearch: (found: Record<string, unknown>): { tab?: string | undefined; file?: string | undefined } => ({
    tab: text(found.tab),
    file: text(found.file),
  }),
  component: lazyRouteComponent(() => import("@/pages/skill/SkillPage"), "SkillPage"),
});

const install = createRoute({
  getParentRoute: () => root,
  path: "/install",
  component: lazyRouteComponent(() => import("@/pages/install/InstallPage"), "InstallPage"),
});

/** What the list of runs is narrowed to. */
export interface RunsSearch {
  skill?: string | undefined;
  state?: RunState | undefined;
}

const runs = createRoute({
  getParentRoute: () => root,
  path: "/runs",
  validateSearch: (found: Record<string, unknown>): RunsSearch => ({
    skill: text(found.skill),
    state: RUN_STATES.find((state) => state === found.state),
  }),
  component: lazyRouteComponent(() => import("@/pages/runs/RunsPage"), "RunsPage"),
});

const run = createRoute({
  getParentRoute: () => root,
  path: "/runs/$id",
  component: lazyRouteComponent(() => import("@/pages/run/RunPage"), "RunPage"),
});

export const router = createRouter({
  routeTree: root.addChildren([home, skills, skill, install, runs, run]),
  defaultPreload: "intent",
  defaultErrorComponent: Failed,
  scrollRestoration: true,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}

/** Every address of the page, and the part that is loaded for it. */
import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from "@tanstack/react-router";

import { cache } from "@/api/cache";
import { catalogQuery, facetsQuery } from "@/api/catalog";
import { fetched } from "@/api/parts";

import "./arrival";
import { Failed, Missing } from "./Failed";
import { auditSearch, catalogSearch, chatSearch, compareSearch, insightSearch, narrowing, runListSearch, scheduleSearch, schedulesSearch, skillSearch, turnsSearch } from "./search";
import { Shell } from "./Shell";

const root = createRootRoute({ component: Shell, notFoundComponent: Missing });

const home = createRoute({
  getParentRoute: () => root,
  path: "/",
  component: lazyRouteComponent(() => fetched(import("@/pages/home/HomePage")), "HomePage"),
});

const insights = createRoute({
  getParentRoute: () => root,
  path: "/insights",
  validateSearch: insightSearch,
  component: lazyRouteComponent(() => fetched(import("@/pages/insights/InsightsPage")), "InsightsPage"),
});

const skills = createRoute({
  getParentRoute: () => root,
  path: "/skills",
  validateSearch: catalogSearch,
  // Asked for while the page itself is still loading.
  loaderDeps: ({ search }) => search,
  loader: ({ deps }) => {
    const later = () => undefined; // the page itself says what went wrong
    cache.query(facetsQuery()).catch(later);
    if (!deps.q) cache.infiniteQuery(catalogQuery(narrowing(deps))).catch(later);
  },
  component: lazyRouteComponent(() => fetched(import("@/pages/catalog/CatalogPage")), "CatalogPage"),
});

const skill = createRoute({
  getParentRoute: () => root,
  path: "/skills/$id",
  validateSearch: skillSearch,
  component: lazyRouteComponent(() => fetched(import("@/pages/skill/SkillPage")), "SkillPage"),
});

const install = createRoute({
  getParentRoute: () => root,
  path: "/install",
  component: lazyRouteComponent(() => fetched(import("@/pages/install/InstallPage")), "InstallPage"),
});

const runs = createRoute({
  getParentRoute: () => root,
  path: "/runs",
  validateSearch: runListSearch,
  component: lazyRouteComponent(() => fetched(import("@/pages/runs/RunsPage")), "RunsPage"),
});

const compare = createRoute({
  getParentRoute: () => root,
  path: "/runs/compare",
  validateSearch: compareSearch,
  component: lazyRouteComponent(() => fetched(import("@/pages/run/ComparePage")), "ComparePage"),
});

const run = createRoute({
  getParentRoute: () => root,
  path: "/runs/$id",
  component: lazyRouteComponent(() => fetched(import("@/pages/run/RunPage")), "RunPage"),
});

const schedules = createRoute({
  getParentRoute: () => root,
  path: "/schedules",
  validateSearch: schedulesSearch,
  component: lazyRouteComponent(() => fetched(import("@/pages/schedules/SchedulesPage")), "SchedulesPage"),
});

const schedule = createRoute({
  getParentRoute: () => root,
  path: "/schedules/$name",
  validateSearch: scheduleSearch,
  component: lazyRouteComponent(() => fetched(import("@/pages/schedule/SchedulePage")), "SchedulePage"),
});

const approvals = createRoute({
  getParentRoute: () => root,
  path: "/approvals",
  component: lazyRouteComponent(() => fetched(import("@/pages/approvals/ApprovalsPage")), "ApprovalsPage"),
});

const agents = createRoute({
  getParentRoute: () => root,
  path: "/agents",
  component: lazyRouteComponent(() => fetched(import("@/pages/agents/AgentsPage")), "AgentsPage"),
});

const agent = createRoute({
  getParentRoute: () => root,
  path: "/agents/$id",
  component: lazyRouteComponent(() => fetched(import("@/pages/agent/AgentPage")), "AgentPage"),
});

const chat = createRoute({
  getParentRoute: () => root,
  path: "/chat",
  component: lazyRouteComponent(() => fetched(import("@/pages/chat/ChatPage")), "ChatPage"),
});

/** One page draws both: what is written does not go away when a conversation gets its address. */
const conversation = createRoute({ getParentRoute: () => chat, path: "$id", validateSearch: chatSearch });

const report = createRoute({
  getParentRoute: () => root,
  path: "/chat/report",
  component: lazyRouteComponent(() => fetched(import("@/pages/chat/ReportPage")), "ReportPage"),
});

const turns = createRoute({
  getParentRoute: () => root,
  path: "/chat/turns",
  validateSearch: turnsSearch,
  component: lazyRouteComponent(() => fetched(import("@/pages/chat/TurnsPage")), "TurnsPage"),
});

const memory = createRoute({
  getParentRoute: () => root,
  path: "/memory",
  component: lazyRouteComponent(() => fetched(import("@/pages/memory/MemoryPage")), "MemoryPage"),
});

const audit = createRoute({
  getParentRoute: () => root,
  path: "/audit",
  validateSearch: auditSearch,
  component: lazyRouteComponent(() => fetched(import("@/pages/audit/AuditPage")), "AuditPage"),
});

const keys = createRoute({
  getParentRoute: () => root,
  path: "/keys",
  component: lazyRouteComponent(() => fetched(import("@/pages/keys/KeysPage")), "KeysPage"),
});

/** No list leads here: a client of MCP sends people. */
const authorize = createRoute({
  getParentRoute: () => root,
  path: "/oauth/authorize",
  component: lazyRouteComponent(() => fetched(import("@/pages/authorize/AuthorizePage")), "AuthorizePage"),
});

const workers = createRoute({
  getParentRoute: () => root,
  path: "/workers",
  component: lazyRouteComponent(() => fetched(import("@/pages/workers/WorkersPage")), "WorkersPage"),
});

const settings = createRoute({
  getParentRoute: () => root,
  path: "/settings",
  component: lazyRouteComponent(() => fetched(import("@/pages/machine/SettingsPage")), "SettingsPage"),
});

const doctor = createRoute({
  getParentRoute: () => root,
  path: "/doctor",
  component: lazyRouteComponent(() => fetched(import("@/pages/machine/DoctorPage")), "DoctorPage"),
});

export const router = createRouter({
  routeTree: root.addChildren([home, insights, skills, skill, install, chat.addChildren([conversation]), report, turns, runs, compare, run, schedules, schedule, agents, agent, memory, approvals, audit, keys, authorize, workers, settings, doctor]),
  defaultPreload: "intent",
  defaultErrorComponent: Failed,
  scrollRestoration: true,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}

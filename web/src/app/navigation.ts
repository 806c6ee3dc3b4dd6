/** The pages in the list at the side and in the palette; a page stands here as soon as it exists. */
import {
  IconBooks,
  IconBrain,
  IconCalendarTime,
  IconChartBar,
  IconChecks,
  IconHistory,
  IconHome,
  IconKey,
  IconMessages,
  IconNotes,
  IconPackageImport,
  IconRobot,
  IconServerCog,
  IconSettings,
  IconStethoscope,
  type Icon,
} from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import type { LinkProps } from "@tanstack/react-router";

import { type Scope, sessionQuery } from "@/api/keys";
import { permits } from "@/api/scopes";

import type { shell } from "./words";

export interface Place {
  id: keyof (typeof shell)["en"]["pages"];
  to: NonNullable<LinkProps["to"]>;
  icon: Icon;
  /** It is of use with any of these; without one to whoever may read skills. */
  scopes?: readonly Scope[];
}

interface Places {
  group: keyof (typeof shell)["en"]["groups"];
  places: readonly Place[];
}

const NAVIGATION: readonly Places[] = [
  {
    group: "use",
    places: [
      { id: "home", to: "/", icon: IconHome },
      { id: "skills", to: "/skills", icon: IconBooks },
      { id: "install", to: "/install", icon: IconPackageImport, scopes: ["skills:write"] },
      { id: "chat", to: "/chat", icon: IconMessages, scopes: ["runs:execute"] },
      { id: "runs", to: "/runs", icon: IconHistory },
      { id: "insights", to: "/insights", icon: IconChartBar },
      { id: "schedules", to: "/schedules", icon: IconCalendarTime },
      { id: "agents", to: "/agents", icon: IconRobot },
      { id: "memory", to: "/memory", icon: IconBrain, scopes: ["runs:execute"] },
    ],
  },
  {
    group: "govern",
    places: [
      { id: "approvals", to: "/approvals", icon: IconChecks, scopes: ["runs:execute", "skills:approve"] },
      { id: "audit", to: "/audit", icon: IconNotes, scopes: ["admin"] },
      { id: "keys", to: "/keys", icon: IconKey, scopes: ["admin"] },
    ],
  },
  {
    group: "server",
    places: [
      { id: "workers", to: "/workers", icon: IconServerCog, scopes: ["admin"] },
      { id: "settings", to: "/settings", icon: IconSettings, scopes: ["admin"] },
      { id: "doctor", to: "/doctor", icon: IconStethoscope, scopes: ["admin"] },
    ],
  },
];

/** The pages for whoever looks: those that their key is of any use for. */
export function usePlaces(): readonly Places[] {
  const scopes = useQuery(sessionQuery()).data?.scopes;
  if (!scopes) return NAVIGATION;
  return NAVIGATION.map(({ group, places }) => ({ group, places: places.filter((place) => !place.scopes || place.scopes.some((scope) => permits(scopes, scope))) })).filter(({ places }) => places.length > 0);
}

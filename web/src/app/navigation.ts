/** The pages in the list at the side and in the palette; a page stands here as soon as it exists. */
import {
  IconBooks,
  IconBrain,
  IconCalendarTime,
  IconChecks,
  IconHistory,
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
import type { LinkProps } from "@tanstack/react-router";

import type { shell } from "./words";

export interface Place {
  id: keyof (typeof shell)["en"]["pages"];
  to: NonNullable<LinkProps["to"]>;
  icon: Icon;
}

export const NAVIGATION: readonly { group: keyof (typeof shell)["en"]["groups"]; places: readonly Place[] }[] = [
  {
    group: "use",
    places: [
      { id: "skills", to: "/skills", icon: IconBooks },
      { id: "install", to: "/install", icon: IconPackageImport },
      { id: "chat", to: "/chat", icon: IconMessages },
      { id: "runs", to: "/runs", icon: IconHistory },
      { id: "schedules", to: "/schedules", icon: IconCalendarTime },
      { id: "agents", to: "/agents", icon: IconRobot },
      { id: "memory", to: "/memory", icon: IconBrain },
    ],
  },
  {
    group: "govern",
    places: [
      { id: "approvals", to: "/approvals", icon: IconChecks },
      { id: "audit", to: "/audit", icon: IconNotes },
      { id: "keys", to: "/keys", icon: IconKey },
    ],
  },
  {
    group: "server",
    places: [
      { id: "workers", to: "/workers", icon: IconServerCog },
      { id: "settings", to: "/settings", icon: IconSettings },
      { id: "doctor", to: "/doctor", icon: IconStethoscope },
    ],
  },
];

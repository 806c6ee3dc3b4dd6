/** Short notices at the corner of the window; what draws them is loaded with the first. */
import type { NotificationData } from "@mantine/notifications";
import { lazy, Suspense, useSyncExternalStore } from "react";

import { fetched } from "@/api/parts";
import { asProblem } from "@/api/problem";
import { language } from "@/i18n";
import { meaningOf } from "@/i18n/chinese";
import { common } from "@/i18n/common";

import { sentence } from "./sentence";

const Notices = lazy(() => fetched(import("./Notices")));
const listeners = new Set<() => void>();
let wanted = false;

/** Say that something was done. */
export function notify(notice: NotificationData): void {
  wanted = true;
  for (const listener of listeners) listener();
  fetched(import("@mantine/notifications")).then(
    ({ notifications }) => notifications.show({ closeButtonProps: { "aria-label": common[language()].close }, ...notice }),
    () => undefined, // what draws it fails as well, and says so
  );
}

/** Say why something was not done, and the way out when there is one. */
export function notifyProblem(error: unknown): void {
  const { message, hint, code } = asProblem(error);
  const report = (title: string, text: string) => notify({ color: "red", title, message: text, autoClose: 10_000 });
  void meaningOf("errors", code).then((meant) => (meant ? report(`${meant.title}：${message}`, meant.fix) : report(sentence(message || code), sentence(hint ?? "", true))));
}

export function NoticePlace() {
  const shown = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => wanted,
  );
  return <Suspense>{shown && <Notices />}</Suspense>;
}

/** The title of the document: what the page is, and how many questions wait. */
import { useEffect } from "react";

import { useWaiting } from "@/api/waiting";

export function usePageTitle(title: string): void {
  const waiting = useWaiting();
  useEffect(() => {
    document.title = `${waiting > 0 ? `(${waiting}) ` : ""}${title} · Skillyard`;
  }, [title, waiting]);
}

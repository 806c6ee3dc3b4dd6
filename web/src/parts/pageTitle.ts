/** The title of the document: what the page is, and how many questions wait. */
import { useEffect } from "react";

let title = "";
let waiting = 0;

function write(): void {
  document.title = `${waiting > 0 ? `(${waiting}) ` : ""}${title} · Skillyard`;
}

/** The title of the page that is open. */
export function usePageTitle(page: string): void {
  useEffect(() => {
    title = page;
    write();
  }, [page]);
}

/** Say in the title how many questions wait, until the function that it gives is called. */
export function countInTitle(questions: number): () => void {
  waiting = questions;
  if (title) write();
  return () => countInTitle(0);
}

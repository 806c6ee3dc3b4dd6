/** Parts of the page that are fetched when they are first needed: what can go wrong on the way, reported as a problem. */
import { Problem } from "./problem";

const NOT_FETCHED = /dynamically imported|importing a module|preload css/i;

/** Whether the server answers at all. */
export const answers = (): Promise<boolean> =>
  fetch("/healthz", { cache: "no-store" }).then(
    () => true,
    () => false,
  );

/**
 * A part that could not be fetched fails as `unreachable`, or as `page_outdated` when the server is there and has another page by now.
 *
 * The router and browsers keep such a failure for good, and the router would load the whole page again from a server that is not there.
 */
export async function fetched<Part>(part: Promise<Part>): Promise<Part> {
  try {
    return await part;
  } catch (error) {
    if (!(error instanceof Error) || !NOT_FETCHED.test(error.message)) throw error;
    throw new Problem({ status: 0, code: (await answers()) ? "page_outdated" : "unreachable", detail: "" });
  }
}

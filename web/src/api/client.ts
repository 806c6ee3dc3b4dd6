/** The one way to ask the server: typed by its own description, errors as values of one class. */
import createClient from "openapi-fetch";

import { Problem, problemOf } from "./problem";
import type { paths } from "./schema";
import { needKey } from "./session";

export const api = createClient<paths>({ baseUrl: window.location.origin, credentials: "same-origin" });

api.use({
  async onResponse({ response }) {
    if (response.ok) return;
    const problem = await problemOf(response);
    if (response.status === 401) needKey(problem);
    throw problem;
  },
  onError({ error }) {
    if (error instanceof Problem || (error instanceof DOMException && error.name === "AbortError")) return;
    return new Problem({ status: 0, code: "unreachable", detail: "" });
  },
});

interface Asked<A> {
  data?: A;
}

/** The whole answer: `data`, and `meta` where it is one page of a list. */
export async function whole<A>(asked: Promise<Asked<A>>): Promise<A> {
  const { data } = await asked;
  if (data === undefined) throw new Problem({ status: 0, code: "empty_answer", detail: "The answer was empty." });
  return data;
}

/** What the answer holds. */
export async function answer<D>(asked: Promise<Asked<{ data: D }>>): Promise<D> {
  return (await whole(asked)).data;
}

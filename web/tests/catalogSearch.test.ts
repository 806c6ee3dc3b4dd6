import { expect, test } from "vitest";

import { catalogSearch, fromWords, narrowing, searchWords } from "@/app/search";

test("the list is by name unless an order is chosen, or words that the nearest come first for", () => {
  expect(narrowing({})).toEqual({ sort: "name" });
  expect(narrowing({ sort: "used" })).toEqual({ sort: "used" });
  expect(narrowing({ q: "tables" })).toEqual({});
  expect(narrowing({ q: "tables", sort: "risk", starred: true, use: "pinned", state: "ok" })).toEqual({ sort: "risk", starred: true, state: "pinned", status: "ok" });
});

test("an address that somebody has written means what it can", () => {
  expect(catalogSearch({ q: "tables", sort: "colour", starred: "yes", collection: 7 })).toEqual({ q: "tables" });
  expect(catalogSearch({ sort: "last_used", starred: true, collection: "mine" })).toEqual({ sort: "last_used", starred: true, collection: "mine" });
});

test("a search that is saved and opened again is the same", () => {
  const search = { q: "tables", source: "user", state: "ok", use: "pinned", tag: "data", starred: true, collection: "mine", sort: "tokens" } as const;
  expect(fromWords(searchWords(search) ?? {})).toEqual(search);
  expect(searchWords({})).toBeUndefined();
});

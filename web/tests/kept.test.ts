import { beforeEach, expect, test, vi } from "vitest";

import { permits } from "@/api/scopes";
import { fromWords, searchWords } from "@/app/search";
import { setDraft } from "@/pages/chat/drafts";
import { fieldsOf, withoutSecrets } from "@/pages/skill/schemaForm";
import { writeAgain } from "@/pages/skill/writeAgain";
import { keepWritten, written } from "@/parts/kept";

beforeEach(() => {
  localStorage.clear();
  sessionStorage.clear();
});

test("what was written is there again, and what no longer fits is not", () => {
  keepWritten("form", { name: "daily", when: { zone: "UTC" }, gone: "x", count: "many" });
  expect(written("form", { name: "", when: {}, count: 0 })).toEqual({ name: "daily", when: { zone: "UTC" }, count: 0 });
  expect(written("other", { name: "first" })).toEqual({ name: "first" });
});

test("a saved search has every filter again", () => {
  const search = { q: "forms", source: "user", state: "ok", use: "on", tag: "pdf", starred: true, collection: "Paper", least: 0.5, sort: "used" } as const;
  expect(fromWords(searchWords(search) ?? {})).toEqual(search);
  expect(searchWords({ q: "", least: undefined })).toBeUndefined();
});

test("a storage with something else in it, or a text that is too long, harms nothing", () => {
  sessionStorage.setItem("skillyard-written:form", "[1");
  expect(written("form", { name: "first" })).toEqual({ name: "first" });
  keepWritten("form", { name: "x".repeat(300_000) });
  expect(written("form", { name: "first" })).toEqual({ name: "first" });
});

test("drafts of conversations survive a reload; one that was sent does not", async () => {
  setDraft("a", "half a sen");
  setDraft("b", "sent");
  setDraft("b", "");
  vi.resetModules();
  const again = await import("@/pages/chat/drafts");
  again.setDraft("c", "other");
  expect(JSON.parse(localStorage.getItem("skillyard-drafts") ?? "")).toEqual([["a", "half a sen"], ["c", "other"]]);
});

test("no password of a form is kept", () => {
  const fields = fieldsOf({ properties: { user: { type: "string" }, key: { type: "string", format: "password" }, pin: { type: "string", writeOnly: true } } }) ?? [];
  expect(withoutSecrets(fields, { user: "ada", key: "s3cret", pin: "1" })).toEqual({ user: "ada" });
});

test("an administrator may do everything, others what their scopes say", () => {
  expect(permits(["admin"], "runs:execute")).toBe(true);
  expect(permits(["skills:read"], "runs:execute")).toBe(false);
});

test("a form is filled again with what a run was given, without its secrets and whose it was", () => {
  const input_schema = { type: "object", properties: { text: { type: "string" }, top: { type: "integer" }, key: { type: "string" } } };
  const skill = { id: "user:x", input_schema, run: { possible: true, entry: "scripts/execute.py", story: "" } };
  const given = { entry: "scripts/execute.py", arguments: ["--fast", "--key=[redacted]"], packages: ["pypdf"] };
  writeAgain(skill, { ...given, parameters: { text: "One fish.", top: 2, key: "[redacted]" }, context: { userId: "ada", locale: "en" } });
  expect(written("parameters:user:x", { asJson: true, json: "", values: {} })).toMatchObject({ asJson: false, values: { text: "One fish.", top: "2", key: "" } });
  expect(written("run:user:x", { entry: "x", line: "", packages: "", context: "" })).toEqual({ entry: "", line: "--fast", packages: "pypdf", context: '{\n  "locale": "en"\n}' });
  writeAgain(skill, { ...given, parameters: { other: 1 }, context: {} });
  expect(written("parameters:user:x", { asJson: false, json: "" })).toMatchObject({ asJson: true, json: '{\n  "other": 1\n}' });
});

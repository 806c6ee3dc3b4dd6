/** No module of the page imports itself by way of others: each can be read, and tested, without those that use it. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import ts from "typescript";
import { expect, test } from "vitest";

const SOURCES = resolve(__dirname, "../src");

/** The circles among modules, each once and as the names on its way. */
function circles(imports: Map<string, string[]>): string[][] {
  const done = new Set<string>();
  const found: string[][] = [];
  const visit = (module: string, way: string[]): void => {
    if (way.includes(module)) found.push([...way.slice(way.indexOf(module)), module]);
    if (done.has(module) || way.includes(module)) return;
    for (const next of imports.get(module) ?? []) visit(next, [...way, module]);
    done.add(module);
  };
  for (const module of imports.keys()) visit(module, []);
  return found;
}

/** What each module imports of the others: types too, and what is loaded later. */
function ours(): Map<string, string[]> {
  const modules = readdirSync(SOURCES, { recursive: true, encoding: "utf8" }).filter((name) => /\.tsx?$/.test(name));
  const named = (from: string, wanted: string): string[] => {
    const base = wanted.startsWith("@/") ? join(SOURCES, wanted.slice(2)) : wanted.startsWith(".") ? resolve(dirname(from), wanted) : "";
    return base ? ["", ".ts", ".tsx", "/index.ts"].map((end) => base + end).filter((path) => /\.tsx?$/.test(path) && existsSync(path)) : [];
  };
  return new Map(
    modules.map((name) => {
      const path = join(SOURCES, name);
      const { importedFiles } = ts.preProcessFile(readFileSync(path, "utf8"), true, true);
      return [path, importedFiles.flatMap(({ fileName }) => named(path, fileName))];
    }),
  );
}

test("a circle is found, by whatever way it is reached", () => {
  const imports = new Map([["a", ["b"]], ["b", ["c", "d"]], ["c", []], ["d", ["b"]]]);
  expect(circles(imports)).toEqual([["b", "d", "b"]]);
});

test("no module imports itself by way of others", () => {
  const imports = ours();
  expect(imports.get(join(SOURCES, "app/routes.ts"))).toContain(join(SOURCES, "pages/chat/ChatPage.tsx")); // loaded later
  expect(circles(imports)).toEqual([]);
}, 60_000); // it reads every module

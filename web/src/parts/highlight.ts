/** Source text cut into lines of coloured words; loaded when a file is looked at. */
import type { Root, RootContent } from "hast";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import markdown from "highlight.js/lib/languages/markdown";
import perl from "highlight.js/lib/languages/perl";
import powershell from "highlight.js/lib/languages/powershell";
import python from "highlight.js/lib/languages/python";
import ruby from "highlight.js/lib/languages/ruby";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import { createLowlight } from "lowlight";

const lowlight = createLowlight({
  bash, c, css, diff, go, ini, java, javascript, json, markdown, perl, powershell, python, ruby, rust, sql, typescript, xml, yaml,
});

const LANGUAGES: Record<string, string> = {
  bash: "bash", c: "c", cc: "c", cfg: "ini", cjs: "javascript", cpp: "c", css: "css", diff: "diff", go: "go", h: "c", htm: "xml",
  html: "xml", ini: "ini", java: "java", js: "javascript", json: "json", jsx: "javascript", md: "markdown", mjs: "javascript",
  mts: "typescript", patch: "diff", pl: "perl", ps1: "powershell", py: "python", pyw: "python", rb: "ruby", rs: "rust", sh: "bash",
  sql: "sql", svg: "xml", toml: "ini", ts: "typescript", tsx: "typescript", xml: "xml", yaml: "yaml", yml: "yaml", zsh: "bash",
};

/** Longer texts are shown without colours: a browser would take seconds. */
const LONGEST = 200_000;

export interface Word {
  text: string;
  /** The class of highlight.js, such as `hljs-keyword`. */
  kind?: string | undefined;
}

/** The lines of a file, coloured by the kind that its name says. */
export function lines(text: string, path: string): Word[][] {
  const language = LANGUAGES[path.split(".").pop()?.toLowerCase() ?? ""];
  const found: Word[][] = [[]];
  if (!language || text.length > LONGEST) return text.split(/\r\n|\r|\n/).map((line) => [{ text: line }]);
  walk(lowlight.highlight(language, text.replace(/\r\n?/g, "\n")), undefined, (word) => {
    word.text.split("\n").forEach((part, index) => {
      if (index > 0) found.push([]);
      if (part) found.at(-1)?.push({ text: part, kind: word.kind });
    });
  });
  return found;
}

function walk(node: Root | RootContent, kind: string | undefined, add: (word: Word) => void): void {
  if (node.type === "text") add({ text: node.value, kind });
  else if (node.type === "element") {
    const own = node.properties.className;
    const inner = Array.isArray(own) ? own.join(" ") : kind;
    node.children.forEach((child) => walk(child, inner, add));
  } else if (node.type === "root") node.children.forEach((child) => walk(child, kind, add));
}

/** A small skill with a script, for a server that has none: installed like any other, and run in the sandbox without a model. */
import { answer, api } from "./client";

const SKILL = `---
name: word-count
description: Counts the words, sentences and lines of a text. Use when someone asks how long a text is.
version: 1.0.0
license: Apache-2.0
type: direct
input_schema:
  type: object
  properties:
    text:
      type: string
      description: The text to measure.
      default: "One fish. Two fish. Red fish, blue fish."
  required: [text]
security:
  timeout_ms: 10000
  network: none
resources:
  entry: ./scripts/execute.py
---

# Word count

Models are poor at counting. Run this skill with the text and quote its numbers.
`;

const SCRIPT = `import re


def execute(input, context):
    text = input["text"]
    return {
        "words": len(re.findall(r"\\w+", text)),
        "sentences": len(re.findall(r"[.!?]+", text)),
        "lines": len(text.splitlines()),
    }
`;

/** Install it; gives its id in the catalog. */
export async function installExample(): Promise<string> {
  const { strToU8, zipSync } = await import("fflate");
  const packed = zipSync({ "word-count/SKILL.md": strToU8(SKILL), "word-count/scripts/execute.py": strToU8(SCRIPT) });
  const form = new FormData();
  form.set("file", new File([packed], "word-count.zip", { type: "application/zip" }));
  await answer<unknown>(api.POST("/api/v1/skill-definitions/upload-create", { params: { query: { wait: true } }, body: { file: "" }, bodySerializer: () => form }));
  return "installed:word-count";
}

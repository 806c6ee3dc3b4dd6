// One command a line on standard input: wraps it with the sandbox runtime, runs it, answers with the milliseconds that took.
// `node srt.mjs FOLDER`, where `npm install @anthropic-ai/sandbox-runtime` was run in FOLDER.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { join } from "node:path";

const place = join(process.argv[2], "node_modules/@anthropic-ai/sandbox-runtime/dist/index.js");
const { SandboxManager } = await import(pathToFileURL(place).href);

await SandboxManager.initialize({
  network: { allowedDomains: [], deniedDomains: [] },
  filesystem: { denyRead: [], allowWrite: [], denyWrite: [] },
});

function ended(command) {
  return new Promise((resolve) => {
    const child = spawn(command, { shell: true, stdio: ["pipe", "pipe", "pipe"] });
    let out = "";
    let problem = "";
    child.stdout.on("data", (data) => (out += data));
    child.stderr.on("data", (data) => (problem += data));
    child.on("close", (code) => resolve({ code, out, problem }));
    child.stdin.end("{}");
  });
}

console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const began = performance.now();
  const { code, out, problem } = await ended(await SandboxManager.wrapWithSandbox(line));
  const took = performance.now() - began;
  console.log(code === 0 && out.includes("true") ? took.toFixed(3) : `failed ${code}: ${problem.trim().slice(0, 300)}`);
}
await SandboxManager.reset();
process.exit(0);

// Runs a program from npm several times in one process: it is loaded once, and its first module again for each run.
// Its arguments are that module and two descriptors: requests come as lines of JSON on the first, answers go to the second.
// A run ends as the process would: by an exit, or when there is nothing left to wait for.

import { readSync, writeSync } from "node:fs";
import { pathToFileURL } from "node:url";

const program = pathToFileURL(process.argv[2]).href;
const [asked, tells] = process.argv.slice(3).map(Number);
const real = { stdout: process.stdout, stderr: process.stderr };
let runs = 0;
let now;

class Exit extends Error {}

function line() {
  const bytes = [];
  const one = Buffer.alloc(1);
  while (readSync(asked, one, 0, 1, null) === 1 && one[0] !== 10) bytes.push(one[0]);
  return Buffer.from(bytes).toString("utf-8");
}

for (const name of ["stdout", "stderr"]) {
  real[name].write = (chunk, encoding, done) => {
    if (now.code === undefined) now[name] += typeof chunk === "string" ? chunk : Buffer.from(chunk).toString("utf-8");
    (typeof encoding === "function" ? encoding : done)?.();
    return true;
  };
}

process.exit = (code) => {
  now.code ??= code ?? process.exitCode ?? 0; // what comes after it would not have happened
  throw new Exit();
};

function failed(error) {
  if (error instanceof Exit) return;
  process.stderr.write(`${error?.stack ?? error}\n`);
  now.code ??= 1;
}
process.on("uncaughtException", failed);
process.on("unhandledRejection", failed);

function next() {
  const request = line();
  if (!request) process.reallyExit(0);
  const { words, cwd, environment } = JSON.parse(request);
  now = { stdout: "", stderr: "", code: undefined };
  for (const name of Object.keys(process.env)) delete process.env[name];
  Object.assign(process.env, environment);
  process.chdir(cwd);
  process.argv = [process.argv[0], process.argv[1], ...words];
  process.exitCode = undefined;
  runs += 1;
  setImmediate(() => import(`${program}?run=${runs}`).catch(failed)); // so that the loop goes on
}

process.on("beforeExit", () => {
  try {
    if (now) writeSync(tells, `${JSON.stringify({ ...now, code: now.code ?? process.exitCode ?? 0 })}\n`);
    next();
  } catch {
    process.reallyExit(1); // who asked is gone: it was killed
  }
});

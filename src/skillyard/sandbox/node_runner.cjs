// Started inside the sandbox by node: runs a skill's JavaScript or TypeScript entry.
//
// `node_runner.cjs MODE FILE ENTRY ARGUMENT...`, where FILE is what is loaded: the entry itself, or what a compiler made of it. In the
// mode `call` an entry that exports `execute` (or a default function, or is one: `module.exports = ...`) is called with the parameters, the context and
// the configuration from standard input, and what it returns goes to the result pipe. Any other entry runs as a plain script.
// This file stands alone and works on every node from version 20.
'use strict';

const fs = require('node:fs');
const { pathToFileURL } = require('node:url');

const RESULT = 3;
const NOTE = 4000; // bytes: so much is written in one piece
const [, , mode, loaded, entry, ...rest] = process.argv;
// What the entry collects through `skillyard_sdk`, which finds it under this symbol.
const run = { context: {}, protocol: 'vcp', memoryWrites: [], steps: [], outcome: null, isFailure: () => false };
globalThis[Symbol.for('skillyard.run')] = run;
let waiting = false;

// What tests import elsewhere is our own here.
const TESTING = new Set(['@jest/globals', 'vitest', 'skillyard_sdk/testing']);
const SOURCE = /\.[mc]?ts$/;
const TRIED = ['.ts', '.mts', '.cts', '.js', '.mjs', '.cjs', '.json', '/index.ts', '/index.mts', '/index.js', '/index.mjs', '/index.cjs'];

/** TypeScript as JavaScript: types erased in their place, or, for enums, namespaces and parameter properties, written anew. */
function compile(source, file) {
  const { stripTypeScriptTypes } = require('node:module');
  try {
    return stripTypeScriptTypes(source, { mode: 'strip' });
  } catch (error) {
    if (error.code !== 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') throw error;
    try {
      return stripTypeScriptTypes(source, { mode: 'transform', sourceMap: true, sourceUrl: file });
    } catch (other) {
      throw other.code === 'ERR_INVALID_ARG_VALUE' ? error : other; // node 26 only strips
    }
  }
}

/** The code without imports of names that it does not use: TypeScript takes them for types. */
function withoutTypeImports(code) {
  const statement = /^([ \t]*)import\s+(?!type\b)((?:[\w$]+\s*,\s*)?\{[^{}]*\}|[\w$]+)\s*from\s*(['"][^'"\n]+['"])[ \t]*;?/gm;
  const rest = code.replace(statement, '');
  const used = (name) => new RegExp(`(?<![\\w$])${name.replaceAll('$', '\\$')}(?![\\w$])`).test(rest);
  return code.replace(statement, (whole, indent, names, from) => {
    const [, standard = '', list] = /^([\w$]+)?\s*,?\s*(?:\{([^{}]*)\})?$/.exec(names) ?? [];
    const parts = (list ?? '').split(',').map((part) => part.trim()).filter(Boolean);
    const kept = parts.filter((part) => used(part.split(/\s+as\s+/).pop()));
    const main = standard && used(standard) ? standard : '';
    const lines = '\n'.repeat(whole.split('\n').length - 1); // what comes after stays on its line
    if (!main && !kept.length) return parts.length || standard ? lines : whole;
    const words = [main, kept.length ? `{ ${kept.join(', ')} }` : ''].filter(Boolean).join(', ');
    return `${indent}import ${words} from ${from};${lines}`;
  });
}

/** Imports as compilers resolve them: without an ending, of a folder, and `./x.js` that is written in `x.ts`. */
function resolveImport(specifier, context, next) {
  if (TESTING.has(specifier)) return next('skillyard_sdk/testing', context);
  try {
    return next(specifier, context);
  } catch (error) {
    if (!/^\.{1,2}(\/|$)/.test(specifier) || !context.parentURL?.startsWith('file:')) throw error;
    const tried = [...TRIED.map((ending) => specifier + ending), specifier.replace(/\.([mc]?)js$/, '.$1ts')];
    const found = tried.find((name) => fs.statSync(new URL(name, context.parentURL), { throwIfNoEntry: false })?.isFile());
    if (!found) throw error;
    return next(found, context);
  }
}

function loadSource(url, context, next) {
  if (!url.startsWith('file:') || !SOURCE.test(url) || url.includes('/node_modules/')) return next(url, context);
  const source = withoutTypeImports(compile(fs.readFileSync(new URL(url), 'utf8'), url));
  const isModule = url.endsWith('.mts') || /^[ \t]*(?:import\b(?!\s*\()|export\b)|\bimport\.meta\b|^await\b/m.test(source);
  return { format: isModule && !url.endsWith('.cts') ? 'module' : 'commonjs', source, shortCircuit: true };
}

const REMEDIES = [
  [/enum/, 'install esbuild or node 24 for enums, or write `const Color = { Red: "red" } as const`'],
  [/namespace|module/, 'write a module of its own (a file that is imported) instead of a namespace'],
  [/parameter propert/, 'declare the field and assign it in the constructor'],
  [/import\b.*=|export\b.*=/, 'write `import x from "..."` and `export default x`'],
];

/** Whether the text may export something to call; a file that asks whether it is the main one and names no `execute` is a script. */
function mayExport(text) {
  const asksForMain = /\brequire\.main\b|\bimport\.meta\.main\b/.test(text);
  return /\bexports?\b/.test(text) && !(asksForMain && !/\bexecute\b/.test(text));
}

/** The function to call, bound to what it belongs to; `null` when the module exports none. */
function findExecute(module) {
  const places = [module, module.default, module.default?.default];
  const owner = places.find((place) => typeof place?.execute === 'function');
  if (owner) return (...values) => owner.execute(...values);
  return places.slice(1).find((place) => typeof place === 'function') ?? null;
}

function readRequest() {
  const request = JSON.parse(fs.readFileSync(0, 'utf8') || '{}');
  Object.assign(run.context, request.context ?? {});
  run.protocol = request.protocol ?? 'vcp';
  run.finishedSteps = request.finishedSteps ?? [];
  return request;
}

function bytesOf(value) {
  if (ArrayBuffer.isView(value)) return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  return value instanceof ArrayBuffer || value instanceof SharedArrayBuffer ? Buffer.from(value) : null;
}

function refuse(what) {
  throw new TypeError(`execute returned a value that JSON cannot hold: ${what}`);
}

/** What JSON does not know, as something it does: errors, maps, sets, dates; bytes as base64. */
function plain(value, above) {
  if (value === null || value === undefined || typeof value === 'string' || typeof value === 'boolean') return value;
  if (typeof value === 'number') return Number.isFinite(value) ? value : refuse(value);
  if (typeof value !== 'object') return refuse(`a ${typeof value}`);
  if (above.includes(value)) return refuse('an object that contains itself');
  const bytes = bytesOf(value);
  if (bytes) return bytes.toString('base64');
  if (typeof value.then === 'function') return refuse('a promise (await it)');
  return plainObject(value, [...above, value]);
}

function plainObject(value, above) {
  if (typeof value.toJSON === 'function') return plain(value.toJSON(), above);
  if (value instanceof Error) return { name: value.name, message: value.message };
  if (value instanceof Number || value instanceof String || value instanceof Boolean) return value.valueOf();
  if (Array.isArray(value) || value instanceof Set) return Array.from(value, (item) => plain(item, above) ?? null);
  const pairs = value instanceof Map ? [...value] : Object.entries(value);
  return Object.fromEntries(pairs.map(([name, item]) => [name, plain(item, above)]));
}

function answer(value) {
  const bytes = bytesOf(value);
  const outcome = bytes ? { output: bytes.toString('base64'), format: 'binary' } : plain(value, []);
  const merged = run.outcome ? plain(run.outcome(outcome), []) : outcome;
  const data = Buffer.from(JSON.stringify(merged ?? null));
  for (let sent = 0; sent < data.length; ) sent += fs.writeSync(RESULT, data, sent);
  fs.closeSync(RESULT);
}

/** Say something while the run goes on; what is too long for one write is said without its values. */
function note(record) {
  try {
    let text = JSON.stringify(plain(record, []));
    if (Buffer.byteLength(text) > NOTE) text = JSON.stringify(plain({ ...record, input: null, output: null }, []));
    if (Buffer.byteLength(text) <= NOTE) fs.writeSync(RESULT, `\x1e${text}\n`);
  } catch {
    // the outcome says it too
  }
}

async function call(execute) {
  const request = readRequest();
  run.note = note;
  waiting = true;
  const value = await execute(request.input ?? {}, request.context ?? {}, request.config ?? {});
  answer(value);
  waiting = false;
  process.exit(process.exitCode ?? 0); // a timer or a worker that is left must not hold the run
}

/** The stack without the frames of node and of this file. */
function ownFrames(error) {
  const lines = String(error?.stack ?? error).split('\n');
  return lines.filter((line) => !/^\s+at .*(node:|node_runner\.cjs)/.test(line)).join('\n');
}

/** One sentence about the error, with what to change where the language is more than this node reads. */
function sentence(error) {
  if (!(error instanceof Error)) return `Error: ${String(error)}`;
  const code = typeof error.code === 'string' && !error.name.includes(error.code) ? ` [${error.code}]` : '';
  const text = `${error.name}${code}: ${error.message.split('\n')[0]}`;
  const remedy = remedyFor(error);
  return remedy ? `${text}; ${remedy}` : text;
}

function remedyFor(error) {
  if (error.code === 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') {
    return (REMEDIES.find(([words]) => words.test(error.message)) ?? [null, 'use only types that can be erased'])[1];
  }
  if (/does not provide an export named/.test(error.message) && /\.m?ts\b/.test(entry)) {
    return 'write `import type` for what is only a type';
  }
  return null;
}

/** Where a module's syntax is wrong: node keeps it to itself unless it is asked to check the file. */
function location(error) {
  if (!(error instanceof SyntaxError) || /^(file:\/\/)?\//.test(error.stack)) return '';
  const { spawnSync } = require('node:child_process');
  const checked = spawnSync(process.execPath, [...process.execArgv, '--check', loaded], { encoding: 'utf8' });
  return (checked.stderr ?? '').split('\n').slice(0, 3).join('\n') + '\n';
}

/** Say why on standard error, the one sentence last, and end. */
function report(error) {
  const called = waiting;
  const meant = run.isFailure(error);
  waiting = false;
  try {
    if (meant || (called && run.steps.length > 0)) {
      answer({ status: 'error', message: meant ? error.message : sentence(error) });
    }
  } catch {
    // the error itself matters more than the steps before it
  }
  if (meant) process.exit(0);
  fs.writeSync(2, `${location(error)}${ownFrames(error)}\n${sentence(error)}\n`);
  process.exit(1);
}

process.on('uncaughtException', report);
process.on('unhandledRejection', report);
process.on('exit', (code) => {
  if (waiting && code === 0) {
    fs.writeSync(2, 'Error: execute never finished: nothing is left that could settle its promise\n');
    process.exitCode = 1;
  }
});

async function main() {
  process.argv.splice(1, process.argv.length, entry, ...rest);
  const { registerHooks } = require('node:module');
  if (registerHooks && (SOURCE.test(loaded) || mode === 'test')) {
    process.setSourceMapsEnabled(true);
    registerHooks({ resolve: resolveImport, load: loadSource });
  }
  if (mode === 'test') Object.assign(globalThis, require('module').createRequire(loaded)('skillyard_sdk/testing'));
  if (mode !== 'call' || !mayExport(fs.readFileSync(loaded, 'utf8'))) {
    require('node:module').runMain(loaded);
    return;
  }
  const execute = findExecute(await import(pathToFileURL(loaded).href));
  if (execute) await call(execute);
}

main().catch(report);

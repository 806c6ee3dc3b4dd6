// What a skill's JavaScript may import as `skillyard_sdk` while it runs: steps, memory suggestions, the context, failure.
//
// The sandbox puts this file where node looks for packages; it is never installed. What is collected is added to what `execute`
// returns, which may be a plain value or an outcome of its own.
'use strict';

const { isDeepStrictEqual } = require('node:util');

const OWNERS = { user: 'userId', household: 'householdId', task: 'taskId', group: 'groupId' };
const LISTS = {
  memoryWrites: ['memoryWrites', 'memory_writes'],
  intermediateSteps: ['intermediateSteps', 'intermediate_steps', 'steps'],
};
const FIELDS = new Set([
  'output', 'format', 'status', 'message', 'tokenUsage', 'token_usage', 'warnings', 'error', ...Object.values(LISTS).flat(),
]);
// Kept by the program that runs the script; without it, as in a test of one's own, everything stays here.
const run = globalThis[Symbol.for('skillyard.run')] ?? { context: {}, protocol: 'vcp', memoryWrites: [], steps: [] };

class SkillFailed extends Error {
  name = 'SkillFailed';
}

/** End the run as failed, with one sentence for the one who asked. */
function fail(message) {
  throw new SkillFailed(message);
}

/** Suggest to remember `content`; `importance` goes from 1 to 5, the owner is by default the one the context names. */
function remember(content, options = {}) {
  const { type = 'preference', importance = 3, ownerType = 'user', ownerId, metadata = {} } = options;
  run.memoryWrites.push({
    ownerType,
    ownerId: String(ownerId ?? run.context[OWNERS[ownerType]] ?? 'anonymous'),
    type,
    importance: run.protocol === 'abp' ? importance / 5 : importance,
    content,
    metadata,
  });
}

/**
 * Trace one step: `await step('validate', async (current) => { current.output = ... }, { input })`. What the function returns is the
 * answer, and the step's output unless `current.output` was set. A function that is not async is answered at once. What an attempt
 * before has finished with the same input is not done again, where the skill declares the step idempotent.
 */
function step(name, work, { input = null, id } = {}) {
  const known = doneBefore(name, input);
  if (known) {
    run.steps.push(known);
    return work.constructor.name === 'AsyncFunction' ? Promise.resolve(known.output) : known.output;
  }
  const record = { stepId: id ?? `step-${run.steps.length + 1}`, stepName: name, input, output: null, duration: 0 };
  record.timestamp = Date.now();
  run.steps.push(record);
  const began = performance.now();
  const current = { name, input, output: undefined };
  const ended = (value) => {
    end(value);
    run.note?.(record);
    return value;
  };
  const end = (value) => {
    record.input = current.input;
    record.output = current.output ?? value ?? null;
    record.duration = Math.round((performance.now() - began) * 1000) / 1000;
    return value;
  };
  const broken = (error) => {
    end(undefined);
    record.error = { name: error?.name ?? 'Error', message: String(error?.message ?? error) };
    run.note?.(record);
    throw error;
  };
  let value;
  try {
    value = work(current);
  } catch (error) {
    return broken(error);
  }
  return typeof value?.then === 'function' ? value.then(ended, broken) : ended(value);
}

function doneBefore(name, input) {
  const waiting = run.finishedSteps ?? [];
  const at = waiting.findIndex((known) => known.stepName === name && isDeepStrictEqual(known.input ?? null, plain(input)));
  return at < 0 ? undefined : waiting.splice(at, 1)[0];
}

function plain(value) {
  try {
    return JSON.parse(JSON.stringify(value ?? null));
  } catch {
    return value;
  }
}

function isOutcome(value) {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return false;
  return Object.keys(value).every((key) => FIELDS.has(key)) && ('output' in value || ['success', 'error'].includes(value.status));
}

run.outcome = (value) => {
  const collected = { memoryWrites: run.memoryWrites, intermediateSteps: run.steps };
  if (Object.values(collected).every((items) => items.length === 0)) return value;
  const outcome = isOutcome(value) ? { ...value } : { output: value };
  for (const [name, items] of Object.entries(collected)) {
    if (items.length === 0) continue;
    const given = LISTS[name].flatMap((alias) => (Array.isArray(outcome[alias]) ? outcome[alias] : []));
    for (const alias of LISTS[name]) delete outcome[alias];
    outcome[name] = [...given, ...items];
  }
  return outcome;
};
run.isFailure = (error) => error instanceof SkillFailed;

module.exports = { SkillFailed, context: run.context, fail, remember, step };

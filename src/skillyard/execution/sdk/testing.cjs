// `describe`, `it` and `expect` for the tests of a skill, with the names that Jest and Vitest know, over the test runner of node.
// What a script imports from `@jest/globals` or `vitest` is this file; in a test its names are global too.
'use strict';

const assert = require('node:assert');
const runner = require('node:test');
const { inspect, isDeepStrictEqual } = require('node:util');

const show = (value) => inspect(value, { depth: 6, breakLength: 100 });

/** A value that stands for many: `expect.anything()`, `expect.objectContaining(...)`. */
class Pattern {
  constructor(name, matches) {
    this.name = name;
    this.matches = matches;
  }
  [inspect.custom]() {
    return this.name;
  }
}

/** Whether a value is what is expected; without `strict`, keys that are undefined and classes do not count, as in Jest. */
function same(actual, expected, strict) {
  if (expected instanceof Pattern) return expected.matches(actual);
  if (typeof expected !== 'object' || expected === null || typeof actual !== 'object' || actual === null) {
    return Object.is(actual, expected);
  }
  if (strict && Object.getPrototypeOf(actual) !== Object.getPrototypeOf(expected)) return false;
  if (Array.isArray(expected) !== Array.isArray(actual)) return false;
  if (expected instanceof Error || actual instanceof Error) {
    return actual instanceof Error && expected instanceof Error && actual.message === expected.message;
  }
  const plain = Array.isArray(expected) || [Object.prototype, null].includes(Object.getPrototypeOf(expected));
  if (!plain && Object.keys(expected).length === 0) return isDeepStrictEqual(actual, expected);
  if (Array.isArray(expected) && actual.length !== expected.length) return false;
  const keys = new Set([...Object.keys(actual), ...Object.keys(expected)]);
  return [...keys].every((key) => (!strict || key in actual === key in expected) && same(actual[key], expected[key], strict));
}

function contains(actual, part) {
  if (part instanceof Pattern) return part.matches(actual);
  if (typeof part !== 'object' || part === null) return Object.is(actual, part);
  if (typeof actual !== 'object' || actual === null) return false;
  if (Array.isArray(part)) return Array.isArray(actual) && part.length === actual.length && part.every((item, at) => contains(actual[at], item));
  return Object.keys(part).every((key) => key in actual && contains(actual[key], part[key]));
}

function at(value, path) {
  const keys = Array.isArray(path) ? path : String(path).replace(/\[(\d+)\]/g, '.$1').split('.');
  let found = value;
  for (const key of keys) {
    if (found === null || found === undefined || !(key in Object(found))) return { there: false };
    found = found[key];
  }
  return { there: true, value: found };
}

function fits(error, expected) {
  const message = error instanceof Error ? error.message : String(error);
  if (expected === undefined) return true;
  if (typeof expected === 'string') return message.includes(expected);
  if (expected instanceof RegExp) return expected.test(message);
  if (typeof expected === 'function') return error instanceof expected;
  return message === expected.message;
}

function calls(value) {
  if (!value?.mock?.calls) throw new TypeError('expect: this is no mock; make one with jest.fn()');
  return value.mock.calls;
}

/** Each matcher: whether the actual value passes. */
const MATCHERS = {
  toBe: (actual, expected) => Object.is(actual, expected),
  toEqual: (actual, expected) => same(actual, expected, false),
  toStrictEqual: (actual, expected) => same(actual, expected, true),
  toMatchObject: (actual, expected) => contains(actual, expected),
  toBeTruthy: (actual) => Boolean(actual),
  toBeFalsy: (actual) => !actual,
  toBeNull: (actual) => actual === null,
  toBeUndefined: (actual) => actual === undefined,
  toBeDefined: (actual) => actual !== undefined,
  toBeNaN: (actual) => Number.isNaN(actual),
  toBeGreaterThan: (actual, than) => actual > than,
  toBeGreaterThanOrEqual: (actual, than) => actual >= than,
  toBeLessThan: (actual, than) => actual < than,
  toBeLessThanOrEqual: (actual, than) => actual <= than,
  toBeCloseTo: (actual, expected, digits = 2) => actual === expected || Math.abs(actual - expected) < 10 ** -digits / 2,
  toBeInstanceOf: (actual, expected) => actual instanceof expected,
  toContain: (actual, item) => (typeof actual === 'string' ? actual.includes(item) : [...actual].includes(item)),
  toContainEqual: (actual, item) => [...actual].some((one) => same(one, item, false)),
  toHaveLength: (actual, length) => actual?.length === length,
  toHaveProperty: (actual, path, ...value) => {
    const found = at(actual, path);
    return found.there && (value.length === 0 || same(found.value, value[0], false));
  },
  toMatch: (actual, expected) => (expected instanceof RegExp ? expected.test(actual) : String(actual).includes(expected)),
  toThrow: (actual, expected) => {
    try {
      actual();
    } catch (error) {
      return fits(error, expected);
    }
    return false;
  },
  toHaveBeenCalled: (actual) => calls(actual).length > 0,
  toHaveBeenCalledTimes: (actual, times) => calls(actual).length === times,
  toHaveBeenCalledWith: (actual, ...given) => calls(actual).some((call) => same(call, given, false)),
  toHaveBeenLastCalledWith: (actual, ...given) => same(calls(actual).at(-1), given, false),
};
MATCHERS.toThrowError = MATCHERS.toThrow;

function check(name, negated, actual, expected) {
  if (MATCHERS[name](actual, ...expected) !== negated) return;
  const wanted = expected.map(show).join(', ');
  const message = `expect(${show(actual)})${negated ? '.not' : ''}.${name}(${wanted})`;
  throw new assert.AssertionError({ message, actual, expected: expected[0], operator: name, stackStartFn: check });
}

const matchersOf = (take, negated) =>
  Object.fromEntries(Object.keys(MATCHERS).map((name) => [name, (...expected) => take(name, negated, expected)]));

function expectations(take) {
  return { ...matchersOf(take, false), not: matchersOf(take, true) };
}

function expect(actual) {
  const settled = (rejected) => async (name, negated, expected) => {
    let value;
    try {
      value = await actual;
    } catch (error) {
      if (!rejected) throw error;
      const thrown = name.startsWith('toThrow') ? () => { throw error; } : error;
      return check(name, negated, thrown, expected);
    }
    if (rejected) throw new assert.AssertionError({ message: `the promise was not rejected: ${show(value)}` });
    return check(name, negated, value, expected);
  };
  return {
    ...expectations((name, negated, expected) => check(name, negated, actual, expected)),
    resolves: expectations(settled(false)),
    rejects: expectations(settled(true)),
  };
}

Object.assign(expect, {
  anything: () => new Pattern('anything', (value) => value !== null && value !== undefined),
  any: (kind) =>
    new Pattern(`any ${kind.name}`, (value) => value instanceof kind || (value !== null && value !== undefined && Object(value) instanceof kind)),
  objectContaining: (part) => new Pattern('objectContaining', (value) => contains(value, part)),
  arrayContaining: (items) => new Pattern('arrayContaining', (value) => Array.isArray(value) && items.every((item) => value.some((one) => same(one, item, false)))),
  stringContaining: (part) => new Pattern('stringContaining', (value) => typeof value === 'string' && value.includes(part)),
  stringMatching: (part) => new Pattern('stringMatching', (value) => typeof value === 'string' && new RegExp(part).test(value)),
});

const mocks = new Set();

/** A function that remembers its calls. */
function fn(implementation = () => undefined) {
  let once = [];
  let current = implementation;
  const mock = function (...given) {
    mock.mock.calls.push(given);
    try {
      const value = (once.shift() ?? current).apply(this, given);
      mock.mock.results.push({ type: 'return', value });
      return value;
    } catch (error) {
      mock.mock.results.push({ type: 'throw', value: error });
      throw error;
    }
  };
  const becomes = (made) => ((current = made), mock);
  const becomesOnce = (made) => (once.push(made), mock);
  Object.assign(mock, {
    mock: { calls: [], results: [] },
    mockImplementation: becomes,
    mockImplementationOnce: becomesOnce,
    mockReturnValue: (value) => becomes(() => value),
    mockReturnValueOnce: (value) => becomesOnce(() => value),
    mockResolvedValue: (value) => becomes(async () => value),
    mockResolvedValueOnce: (value) => becomesOnce(async () => value),
    mockRejectedValue: (error) => becomes(async () => { throw error; }),
    mockClear: () => ((mock.mock.calls.length = 0), (mock.mock.results.length = 0), mock),
    mockReset: () => ((once = []), (current = () => undefined), mock.mockClear()),
    mockRestore: () => mock.mockReset(),
  });
  mocks.add(mock);
  return mock;
}

function spyOn(owner, name) {
  const original = owner[name];
  const mock = fn(original);
  mock.mockRestore = () => ((owner[name] = original), mock.mockReset());
  owner[name] = mock;
  return mock;
}

const all = (method) => () => {
  for (const mock of mocks) mock[method]();
};
const jest = {
  fn,
  spyOn,
  clearAllMocks: all('mockClear'),
  resetAllMocks: all('mockReset'),
  restoreAllMocks: all('mockRestore'),
};

/** `it(name, body, timeout?)` of Jest as node has it, with `only`, `skip`, `todo` and `each`. */
function named(test) {
  const plain = (register) => (name, body, timeout) =>
    register(String(name), typeof timeout === 'number' ? { timeout } : {}, body && (body.length ? withDone(body) : () => body()));
  const made = plain(test);
  for (const kind of ['only', 'skip', 'todo']) made[kind] = plain(test[kind]);
  made.each = (rows) => (name, body) => {
    rows.forEach((row, index) => {
      const values = Array.isArray(row) ? row : [row];
      let next = 0;
      const title = String(name).replace(/%([sdifjop#])/g, (_, kind) => (kind === '#' ? index : typeof values[next] === 'string' ? values[next++] : show(values[next++])));
      test(title, () => body(...values));
    });
  };
  return made;
}

const withDone = (body) => () =>
  new Promise((resolve, reject) => {
    body((error) => (error ? reject(error) : resolve()));
  });

const it = named(runner.it);
const describe = named(runner.describe);

module.exports = {
  describe,
  it,
  test: it,
  expect,
  jest,
  vi: jest,
  beforeEach: (body) => runner.beforeEach(() => body()),
  afterEach: (body) => runner.afterEach(() => body()),
  beforeAll: (body) => runner.before(() => body()),
  afterAll: (body) => runner.after(() => body()),
};

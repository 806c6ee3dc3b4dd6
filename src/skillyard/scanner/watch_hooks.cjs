// Loaded by every node of the sandbox of a watched skill: connections are led to the one listener there is, long waiting is cut
// short, packages that are not here are played. What is done to files and sent is seen from outside.
"use strict";
const fs = require("node:fs");
const net = require("node:net");
const tls = require("node:tls");
const dns = require("node:dns");
const Module = require("node:module");

const CALLS = "/workspace/.world/calls";
const PROXY = { host: "127.0.0.1", port: 3128 };

function note(...words) {
  try {
    fs.appendFileSync(CALLS, words.map((word) => String(word).replace(/\s+/g, " ")).join("\t").slice(0, 4000) + "\n");
  } catch {
    // nothing can be noted
  }
}

const isHere = (host) => !host || ["localhost", "0.0.0.0", "::1", "::"].includes(host) || String(host).startsWith("127.");

const connect = net.Socket.prototype.connect;
net.Socket.prototype.connect = function (...given) {
  const [options, done] = net._normalizeArgs(Array.isArray(given[0]) ? given[0] : given);
  if (options.path || isHere(options.host)) return connect.apply(this, given);
  const socket = connect.call(this, { ...options, ...PROXY, lookup: undefined }, done ?? undefined);
  this.write(`TUNNEL ${options.host} ${options.port}\r\n\r\n`);
  return socket;
};

const secure = tls.connect;
tls.connect = function (...given) {
  const [first, done] = net._normalizeArgs(given);
  const options = Object.assign({}, ...given.filter((one) => one && typeof one === "object"), first);
  if (options.socket || options.path || isHere(options.host)) return secure.apply(this, given);
  options.socket = net.connect({ host: options.host, port: options.port });
  options.servername ??= net.isIP(options.host) ? "" : options.host;
  return secure.call(this, options, done ?? undefined);
};

const lookUp = dns.lookup;
dns.lookup = function (host, options, done) {
  const answer = done ?? options;
  if (isHere(host)) return lookUp.call(dns, host, options, done);
  note("lookup", host);
  const all = typeof options === "object" && options.all;
  process.nextTick(() => (all ? answer(null, [{ address: "198.18.0.1", family: 4 }]) : answer(null, "198.18.0.1", 4)));
};
for (const name of ["resolve", "resolve4", "resolveTxt"]) {
  dns[name] = (host, ...rest) => {
    note("lookup", host);
    rest.at(-1)(null, name === "resolveTxt" ? [["ok"]] : ["198.18.0.1"]);
  };
}

const later = globalThis.setTimeout;
globalThis.setTimeout = Object.assign((call, delay, ...rest) => later(call, Math.min(Number(delay) || 0, 50), ...rest), later);

const played = () =>
  new Proxy(function () {}, {
    get: (_, name) => (name === "then" || typeof name === "symbol" ? undefined : played()),
    apply: () => played(),
    construct: () => played(),
  });

function axios() {
  const send = async (settings) => {
    const address = new URL(settings.url, settings.baseURL);
    for (const [name, value] of Object.entries(settings.params ?? {})) address.searchParams.append(name, String(value));
    const text = settings.data === undefined || typeof settings.data === "string" ? settings.data : JSON.stringify(settings.data);
    const answer = await fetch(address, { method: settings.method ?? "get", headers: settings.headers, body: text });
    const body = await answer.text();
    let data = body;
    try {
      data = JSON.parse(body);
    } catch {
      // it is text
    }
    return { data, status: answer.status, headers: Object.fromEntries(answer.headers) };
  };
  const make = (base) => {
    const client = (url, more) => send({ ...base, ...(typeof url === "string" ? { url, ...more } : url) });
    for (const method of ["get", "delete", "head"]) client[method] = (url, more) => send({ ...base, ...more, url, method });
    for (const method of ["post", "put", "patch"])
      client[method] = (url, data, more) => send({ ...base, ...more, url, data, method });
    client.request = client;
    client.create = (more) => make({ ...base, ...more });
    client.interceptors = { request: { use() {} }, response: { use() {} } };
    client.defaults = { headers: { common: {} } };
    client.default = client;
    return client;
  };
  return make({});
}

process.once("beforeExit", () => {
  const exported = require.main?.exports ?? {};
  const call = ["execute", "main", "run", "handler"].map((name) => exported[name]).find((one) => typeof one === "function");
  if (call) Promise.resolve(call({ text: "sample", query: "sample" })).catch(() => {});
});

const load = Module._load;
Module._load = function (name, ...rest) {
  try {
    return load.call(this, name, ...rest);
  } catch (error) {
    if (error.code !== "MODULE_NOT_FOUND" || /^[./]|^node:/.test(name)) throw error;
    if (name === "axios") return axios();
    if (name === "node-fetch") return Object.assign((...given) => fetch(...given), { default: fetch });
    return played();
  }
};

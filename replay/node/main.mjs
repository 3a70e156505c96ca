// The script of a Node worker: runs an agent in its own folder, as `replay/worker/main.py` does for Python.
//
// Started as `node main.mjs CONTROL TOOLS LIFE`, three file descriptors, with the messages described there;
// a trial's reply has `value`, what the agent returned, instead of `answer`. It runs many trials at a time,
// as Python's async workers do. An entrypoint is `FILE#EXPORT[.ATTRIBUTE…]`; a tool is one too, optionally
// with ` as NAME`, or the name of a framework.
//
// Works on Node 20.6 and later, with its standard library alone.

import { existsSync, readFileSync } from "node:fs";
import Module, { createRequire } from "node:module";
import { Socket } from "node:net";
import { extname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { Worker as Thread } from "node:worker_threads";

import * as answers from "./answers.mjs";
import { Observer } from "./boundary.mjs";
import * as calls from "./calls.mjs";
import { FRAMEWORKS } from "./frameworks.mjs";
import * as hooks from "./hooks.mjs";
import { Unusable, construct, isClass, targetOf } from "./target.mjs";
import { Tools } from "./tools.mjs";

const POINT = /^(?<file>.+?)#(?<path>[^\s#]+?)(?:\s+as\s+(?<as>\S+))?$/;
const TYPESCRIPT = new Set([".ts", ".tsx", ".mts", ".cts", ".jsx"]);
/** Packages whose version can change what an agent does. */
const PACKAGES = [
  "ai", "openai", "@anthropic-ai/sdk", "@google/genai", "@openai/agents", "@langchain/core", "@langchain/langgraph",
  "langchain", "@mastra/core", "@modelcontextprotocol/sdk", "@anthropic-ai/claude-agent-sdk",
];

class Worker {
  #control;
  #observer = new Observer();
  #target;

  constructor(control) {
    this.#control = new Socket({ fd: control, readable: true, writable: true });
    let text = "";
    this.#control.setEncoding("utf8");
    this.#control.on("data", (chunk) => {
      text += chunk;
      const lines = text.split("\n");
      text = lines.pop();
      for (const line of lines) this.#take(JSON.parse(line));
    });
    this.#control.on("close", () => process.exit(0));
    // An engine that is gone takes the process with it (see `endWithParent`).
    this.#control.on("error", () => {});
  }

  send(message) {
    let line = calls.encode(message);
    if (line.length > calls.LARGEST_LINE) {
      const reason = `the agent's answer is longer than ${calls.LARGEST_LINE >> 20} MB`;
      line = calls.encode({ ...message, value: null, failed: answers.failed("agent_error", reason) });
    }
    this.#control.write(line);
  }

  #take(order) {
    if ("entrypoint" in order) void this.#start(order);
    else if ("cancel" in order) calls.running.get(order.cancel)?.("cancelled");
    else void this.#run(order);
  }

  async #start(order) {
    try {
      this.send({ ready: await this.#ready(order) });
    } catch (error) {
      const reason = error instanceof Unusable ? error.message : `the worker failed: ${error.stack}`;
      this.send({ failed: reason, blocked: [], ...this.#observer.before() });
      this.#control.end();
    }
  }

  async #ready({ entrypoint, factory, tools, live, args, packages }) {
    const frameworks = [];
    const points = [];
    for (const tool of tools) {
      if (tool in FRAMEWORKS) frameworks.push(installedFramework(tool));
      else points.push(parsed(tool, "tool"));
    }
    const own = new Tools(points);
    const seen = new Map(frameworks.map(({ key }) => [key, new Set()]));
    const replacing = {};
    for (const { key, replacing: make } of frameworks) {
      const see = (name) => seen.get(key).add(name);
      replacing[key] = make({ see, live: new Set(live), refuse: calls.refuse });
    }
    globalThis[Symbol.for("replaydiff.replace")] = new Registry(own, replacing);
    const target = parsed(entrypoint, "entrypoint");
    await useTypeScript([target, ...points]);
    install(points, frameworks);
    const module = await imported(target, "entrypoint");
    await checkPoints(own, points);
    this.#target = await this.#resolved(module, target, factory, args);
    // Tools that are made during a trial are answered as well.
    const ofFrameworks = [...seen].flatMap(([key, names]) => {
      const answered = [...names].filter((name) => !live.includes(name));
      return answered.length ? answered : [`every tool of ${key}`];
    });
    return {
      mode: "async",
      takes: this.#target.takes,
      signature: this.#target.signature,
      tools: [...new Set([...own.names, ...ofFrameworks])].sort(),
      patched: [...own.paths, ...ofFrameworks],
      returns: {},
      versions: packages ? versions() : {},
      blocked: [],
      ...this.#observer.before(),
    };
  }

  async #resolved(module, { path, label }, factory, args) {
    let [value, owner] = [path[0] in module ? module : { ...module.default, ...module }];
    for (const [index, name] of path.entries()) {
      if (value == null || !(name in Object(value))) {
        if (index && isClass(value)) {
          owner = await construct(value, label, args);
          value = owner;
        }
        if (value == null || !(name in Object(value))) {
          const has = Object.keys(Object(value)).slice(0, 10).join(", ") || "nothing";
          throw new Unusable(`the entrypoint ${label} is not there; it exports ${has}`);
        }
      }
      owner = index ? value : undefined;
      value = value[name];
    }
    if (factory || isClass(value)) value = await construct(value, label, args);
    return targetOf(value, owner, label, args);
  }

  async #run(order) {
    const { trial } = order;
    const outcome = await calls.TRIAL.run(trial, () => this.#outcome(order));
    calls.running.delete(trial);
    const events = this.#observer.end(trial);
    try {
      this.send({ trial, ...outcome, ...events });
    } catch (error) {
      const reason = `the agent's answer cannot be written as JSON: ${error.message}`;
      this.send({ trial, ms: outcome.ms, failed: answers.failed("agent_error", reason), ...events });
    }
  }

  async #outcome(order) {
    // What a tool call or the engine ends is not waited for: the agent may never notice.
    const ended = new Promise((_, reject) => calls.begin(order.trial, (reason) => reject(new calls.Stopped(reason))));
    this.#observer.begin(order.trial);
    this.send({ began: order.trial });
    const began = performance.now();
    try {
      const value = await Promise.race([ended, (async () => this.#target.call(order))()]);
      const ms = performance.now() - began;
      return { ms, value: (await answers.read(value)) ?? null };
    } catch (error) {
      const ms = performance.now() - began;
      if (error instanceof calls.Stopped) return { ms, failed: answers.failed("agent_error", error.message) };
      return { ms, failed: answers.failure(error) };
    }
  }
}

/** What the statements of `hooks.mjs` call. */
class Registry {
  #own;
  #replacing;
  #done = new Set();

  constructor(own, replacing) {
    this.#own = own;
    this.#replacing = replacing;
  }

  /** Return what takes the place of a definition. */
  with(key, name, value) {
    if (!(key in this.#replacing)) return this.#own.replace(key, value);
    return value === undefined || this.#done.has(value) ? value : this.#replacing[key](name, value);
  }

  /** Note what a definition is now: assigning to it may have failed. */
  done(key, name, value) {
    this.#own.done(key, value);
    if (key in this.#replacing && value !== undefined) this.#done.add(value).add(`${key} ${name}`);
  }

  /** Return a CommonJS module's exports with a definition replaced; bundlers export getters. */
  in(key, name, exports) {
    const value = exports?.[name];
    const by = value === undefined ? value : this.with(key, name, value);
    if (by !== value) {
      Reflect.set(exports, name, by);
      if (exports[name] !== by) {
        const all = { ...Object.getOwnPropertyDescriptors(exports), [name]: { value: by, enumerable: true, writable: true, configurable: true } };
        exports = Object.create(Object.getPrototypeOf(exports), all);
      }
    }
    this.done(key, name, by);
    return exports;
  }

  /** Refuse a framework's module whose definition could not be replaced: its tools would not be answered. */
  check(key, name) {
    if (!this.#done.has(`${key} ${name}`))
      throw new Unusable(`the tools of ${key} cannot be answered: its module defines ${name} in an unknown way; name your tools one by one instead`);
  }
}

/** Take a point apart: `./src/agent.ts#cancelOrder as cancel_order`. */
function parsed(text, what) {
  const { file, path, as } = POINT.exec(text)?.groups ?? {};
  if (!file) {
    const known = Object.keys(FRAMEWORKS).join(", ");
    throw new Unusable(`the ${what} ${JSON.stringify(text)} must be written ./src/agent.ts#name${what === "tool" ? `, or be one of ${known}` : ""}`);
  }
  const absolute = resolve(file);
  if (!existsSync(absolute)) throw new Unusable(`the ${what} ${text} is not there: ${process.cwd()} has no file ${file}; check it and \`path\``);
  const url = pathToFileURL(absolute).href;
  const names = path.split(".");
  return { key: `${url}#${names[0]}`, label: `${file}#${path}`, file, url, path: names, as };
}

/** Have TypeScript read: by tsx, where the agent's project has it, else by Node itself. */
async function useTypeScript(points) {
  const file = points.find((each) => TYPESCRIPT.has(extname(each.file)))?.file;
  if (!file) return;
  const project = createRequire(join(process.cwd(), "package.json"));
  let loader;
  try {
    loader = project.resolve("tsx");
  } catch {
    if (process.features.typescript) return;
    throw new Unusable(`${file} is TypeScript, which Node ${process.versions.node} does not read; install tsx in the agent's project, or use Node 22.18 or later`);
  }
  await import(pathToFileURL(loader).href);
}

/** Have modules changed as they are loaded. */
function install(points, frameworks) {
  const plan = { points: {}, packages: frameworks.flatMap(({ key, modules }) => modules.map((each) => ({ key, ...each }))) };
  for (const { url, path, key } of points) (plan.points[url] ??= {})[path[0]] = key;
  hooks.initialize(plan);
  if (typeof Module.registerHooks === "function") Module.registerHooks({ load: hooks.loadSync });
  else Module.register("./hooks.mjs", { parentURL: import.meta.url, data: plan });
  // Before Node 22.15 `require` has no hooks, and loaders such as tsx compile CommonJS modules themselves.
  const compile = Module.prototype._compile;
  Module.prototype._compile = function (text, file, ...others) {
    return compile.call(this, hooks.changedText(pathToFileURL(file).href, text) ?? text, file, ...others);
  };
}

async function imported({ url, label }, what) {
  try {
    return await import(url);
  } catch (error) {
    throw new Unusable(`the ${what}'s module ${label} does not import: ${answers.sentence(error)}`);
  }
}

/** See that each named tool was replaced; a module that the entrypoint does not import is imported here. */
async function checkPoints(own, points) {
  for (const point of points) {
    if (!own.open.has(point)) continue;
    const module = await imported(point, "tool");
    if (!own.open.has(point)) continue;
    const [name, ...path] = point.path;
    const value = module[name] ?? module.default?.[name];
    if (value === undefined) {
      const has = Object.keys(module).slice(0, 10).join(", ") || "nothing";
      throw new Unusable(`the tool ${point.label} is not there; its module exports ${has}`);
    }
    if (typeof value !== "function" && own.inside(value, path, point)) continue;
    throw new Unusable(`the tool ${point.label} cannot be answered: its module does not define ${name} as a function, a tool object or a table of them; name the file that defines it`);
  }
}

/** Return the versions of Node and of those packages that are installed and matter. */
function versions() {
  const installed = PACKAGES.map((name) => [name, versionOf(name)]).filter(([, version]) => version);
  return { node: process.versions.node, ...Object.fromEntries(installed) };
}

/** Return the version of a package as the agent's folder finds it; undefined where it is not installed. */
function versionOf(name) {
  const folders = createRequire(join(process.cwd(), "package.json")).resolve.paths(name) ?? [];
  const file = folders.map((folder) => join(folder, name, "package.json")).find(existsSync);
  return file && String(JSON.parse(readFileSync(file, "utf8")).version);
}

function installedFramework(key) {
  const { package: name } = FRAMEWORKS[key];
  if (versionOf(name)) return FRAMEWORKS[key];
  throw new Unusable(`tools names ${key}, and ${name} is not installed for ${process.cwd()}; install it, or remove it`);
}

/** End the process group when the other end of the pipe closes, whatever the agent's thread does. */
function endWithParent(life) {
  const code = `const { Socket } = require("node:net");
    new Socket({ fd: ${life}, readable: true }).on("error", () => {}).on("close", () => process.kill(-${process.pid}, "SIGKILL")).resume();`;
  new Thread(code, { eval: true, execArgv: [], env: {} }).unref();
}

const [control, tools, life] = process.argv.splice(2, 3).map(Number);
endWithParent(life);
calls.open(tools);
new Worker(control);

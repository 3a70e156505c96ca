// What of the agent is replaced: the tools that `tools` names, in the modules that define them.

import { existsSync, readFileSync, realpathSync } from "node:fs";
import Module, { createRequire } from "node:module";
import { extname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

import { sentence } from "./answers.mjs";
import { refuse } from "./calls.mjs";
import { FRAMEWORKS } from "./frameworks.mjs";
import * as hooks from "./hooks.mjs";
import { Unusable } from "./target.mjs";
import { Tools } from "./tools.mjs";

const POINT = /^(?<file>.+?)#(?<path>[^\s#]+?)(?:\s+as\s+(?<as>\S+))?$/;
const TYPESCRIPT = new Set([".ts", ".tsx", ".mts", ".cts", ".jsx"]);

export class Patches {
  #seen = {};
  #replacing = {};
  #done = new Set();

  /**
   * Take the points and frameworks of `tools` apart; nothing is replaced yet.
   *
   * @param tools as replay.toml names them
   * @param live names of tools that may run
   * @param folder the agent's
   */
  constructor(tools, live, folder) {
    this.frameworks = tools.filter((tool) => tool in FRAMEWORKS).map(installedFramework);
    this.points = tools.filter((tool) => !(tool in FRAMEWORKS)).map((tool) => parsed(tool, "tool", folder));
    this.own = new Tools(this.points);
    this.live = new Set(live);
    for (const { key, replacing } of this.frameworks) {
      const names = (this.#seen[key] = new Set());
      this.#replacing[key] = replacing({ see: (name) => names.add(name), live: this.live, refuse });
    }
    globalThis[Symbol.for("replaydiff.replace")] = this;
  }

  /** Return the tools that are answered, as far as they are known; one made during a trial is as well. */
  get names() {
    return [...new Set([...this.own.names, ...this.#ofFrameworks()])].sort();
  }

  /** Return where each was replaced; of a framework, its tools' names. */
  get paths() {
    return [...this.own.paths, ...this.#ofFrameworks()];
  }

  #ofFrameworks() {
    return Object.entries(this.#seen).flatMap(([key, names]) => {
      const answered = [...names].filter((name) => !this.live.has(name));
      return answered.length ? answered : [`every tool of ${key}`];
    });
  }

  // --- what the statements of `hooks.mjs` call -------------------------------------------------------

  /** Return what takes the place of a definition. */
  with(key, name, value) {
    if (!(key in this.#replacing)) return this.own.replace(key, value);
    return value === undefined || this.#done.has(value) ? value : this.#replacing[key](name, value);
  }

  /** Note what a definition is now: assigning to it may have failed. */
  done(key, name, value) {
    this.own.done(key, value);
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

  // --- what the worker calls -------------------------------------------------------------------------

  /** Have modules changed as they are loaded from now on. */
  install() {
    const plan = { points: {}, packages: this.frameworks.flatMap(({ key, modules }) => modules.map((each) => ({ key, ...each }))) };
    for (const { url, path, key } of this.points) (plan.points[url] ??= {})[path[0]] = key;
    if (!Module.register) throw new Unusable(`Node ${process.versions.node} is too old; use Node 20.6 or later`);
    hooks.initialize(plan);
    if (typeof Module.registerHooks === "function") Module.registerHooks({ load: hooks.loadSync });
    else Module.register("./hooks.mjs", { parentURL: import.meta.url, data: plan });
    // Before Node 22.15 `require` has no hooks, and loaders such as tsx compile CommonJS modules themselves.
    const compile = Module.prototype._compile;
    Module.prototype._compile = function (text, file, ...others) {
      return compile.call(this, hooks.changedText(pathToFileURL(file).href, text) ?? text, file, ...others);
    };
  }

  /** See that each named tool was replaced; a module that the entrypoint does not import is imported here. */
  async complete() {
    for (const point of this.points) {
      if (!this.own.open.has(point)) continue;
      const module = await imported(point, "tool");
      if (!this.own.open.has(point)) continue;
      const [name, ...path] = point.path;
      const value = module[name] ?? module.default?.[name];
      if (value === undefined) {
        const has = Object.keys(module).slice(0, 10).join(", ") || "nothing";
        throw new Unusable(`the tool ${point.label} is not there; its module exports ${has}`);
      }
      if (typeof value !== "function" && this.own.inside(value, path, point)) continue;
      throw new Unusable(`the tool ${point.label} cannot be answered: its module does not define ${name} as a function, a tool object or a table of them; name the file that defines it`);
    }
  }
}

/** Take a point apart: `./src/agent.ts#cancelOrder as cancel_order`. */
export function parsed(text, what, folder = process.cwd()) {
  const { file, path, as } = POINT.exec(text)?.groups ?? {};
  if (!file) {
    const known = Object.keys(FRAMEWORKS).join(", ");
    throw new Unusable(`the ${what} ${JSON.stringify(text)} must be written ./src/agent.ts#name${what === "tool" ? `, or be one of ${known}` : ""}`);
  }
  const absolute = resolve(folder, file);
  if (!existsSync(absolute)) throw new Unusable(`the ${what} ${text} is not there: ${folder} has no file ${file}; check it and \`path\``);
  const url = pathToFileURL(realpathSync(absolute)).href;
  const names = path.split(".");
  return { key: `${url}#${names[0]}`, label: `${file}#${path}`, file, url, path: names, as };
}

/** Have TypeScript read: by tsx, where the agent's project has it, else by Node itself. */
export async function useTypeScript(points) {
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
  // It would write to its cache during a trial, and a trial that writes gets a process of its own.
  process.env.TSX_DISABLE_CACHE ??= "1";
  await import(pathToFileURL(loader).href);
}

export async function imported({ url, label }, what) {
  try {
    return await import(url);
  } catch (error) {
    throw new Unusable(`the ${what}'s module ${label} does not import: ${sentence(error)}`);
  }
}

/** Return the version of a package as the agent's folder finds it; undefined where it is not installed. */
export function versionOf(name) {
  const folders = createRequire(join(process.cwd(), "package.json")).resolve.paths(name) ?? [];
  const file = folders.map((folder) => join(folder, name, "package.json")).find(existsSync);
  return file && String(JSON.parse(readFileSync(file, "utf8")).version);
}

function installedFramework(key) {
  const { package: name, supported } = FRAMEWORKS[key];
  const version = versionOf(name);
  if (!version) throw new Unusable(`tools names ${key}, and ${name} is not installed for ${process.cwd()}; install it, or remove it`);
  if (!supported.includes(version.split(".")[0]))
    throw new Unusable(`the tools of ${name} ${version} cannot be answered; supported is ${supported.join(", ")}: name your tools one by one instead`);
  return FRAMEWORKS[key];
}


// The user's own tools: a function, a dispatcher (name, args), a tool object, a method of a class, or a table
// of them. A function is replaced in its module (`hooks.mjs`); what is in an object is replaced there.

import { answer, answerSync } from "./calls.mjs";
import { parametersOf } from "./parameters.mjs";

/** What a tool object calls the function that does its work. */
const WORKERS = ["execute", "func", "handler", "run"];
const DISPATCHER_NAMES = /^_*(name|tool|tool_?name|fn|func|function_?name|fn_?name)_*$/i;
const DISPATCHER_ARGS = /^_*(args?|arguments|input|tool_?input|tool_?args|params?|parameters|payload)_*$/i;
/** Parameters after the arguments that are none. */
const CONTEXT = /^_|^(ctx|context|options?|opts|config|extra|deps|env|runtime|state|signal|run_?manager)$/i;

const replacements = new WeakMap();
const replaced = new WeakSet();

export class Tools {
  /** Names of the tools that are answered; `execute(name, args)` is a dispatcher of any tool. */
  names = new Set();
  /** Where each was replaced. */
  paths = new Set();
  /** The points of which nothing was replaced yet. */
  open;

  /** @param points `[{key, label, path: [name, attribute, …], as}]`; of the same `key` for the same definition */
  constructor(points) {
    this.points = points;
    this.open = new Set(points);
  }

  /** Return what takes the place of a module's definition: a function's replacement, or the value itself. */
  replace(key, value) {
    for (const point of this.points.filter((each) => each.key === key)) {
      const [root, ...path] = point.path;
      if (typeof value === "function" && !path.length && !isClass(value)) {
        value = this.function(value, point.as ?? (root === "default" ? value.name : root), point.label);
      } else if (Object(value) === value && this.inside(value, path, point)) this.open.delete(point);
    }
    return value;
  }

  /** Note what a definition is now. A constant may have kept its value. */
  done(key, value) {
    for (const point of this.open) if (point.key === key && replaced.has(value)) this.open.delete(point);
  }

  /** Replace what a path leads to within a value; return whether there was anything. */
  inside(owner, path, { label: key, as, path: [root] }) {
    for (const [index, name] of path.entries()) {
      if (isClass(owner) && owner.prototype && name in owner.prototype) owner = owner.prototype;
      const value = owner?.[name];
      if (index < path.length - 1) owner = value;
      else if (typeof value === "function" && !isClass(value)) return this.property(owner, name, as ?? name, key);
      else owner = value;
      if (owner == null) return false;
    }
    return this.table(owner, path.at(-1) ?? root, key, new Set(), as);
  }

  /** Replace the tools of a table, or the worker of a tool object. */
  table(owner, name, path, seen, as) {
    if (owner === null || typeof owner !== "object" || seen.has(owner)) return false;
    seen.add(owner);
    const worker = WORKERS.find((each) => typeof owner[each] === "function");
    if (worker && !(owner instanceof Map)) {
      const named = [as, owner.name, owner.id, name].find((each) => typeof each === "string" && each);
      return this.property(owner, worker, named, path);
    }
    const isList = Array.isArray(owner);
    const members = owner instanceof Map ? [...owner] : owner instanceof Set ? [] : Object.entries(owner);
    let any = false;
    for (const [member, value] of members) {
      const memberPath = isList ? `${path}[${member}]` : `${path}.${member}`;
      const called = isList ? undefined : member;
      if (typeof value === "function" && !isClass(value)) {
        const replacement = this.function(value, called ?? value.name, memberPath);
        if (owner instanceof Map) owner.set(member, replacement);
        else set(owner, member, replacement);
        any = true;
      } else any = this.table(value, called, memberPath, seen) || any;
    }
    return any;
  }

  property(owner, property, name, path) {
    set(owner, property, this.function(owner[property], name, path));
    return true;
  }

  /** Return a function that asks for the answer of another one. */
  function(fn, name, path) {
    if (replaced.has(fn)) return fn;
    if (replacements.has(fn)) return replacements.get(fn);
    const parameters = parametersOf(fn);
    const isDispatcher =
      parameters?.length > 1 && DISPATCHER_NAMES.test(parameters[0].name) && DISPATCHER_ARGS.test(parameters[1].name);
    this.names.add(isDispatcher ? `${name}(${parameters[0].name}, ${parameters[1].name})` : name);
    this.paths.add(path);
    const read = (args) => (isDispatcher ? [String(args[0]), decoded(args[1])] : [name, named(parameters, args)]);
    const isAsync = returnsPromise(fn);
    const isGenerator = /Generator/.test(fn.constructor.name);
    const replacement = function (...args) {
      const run = () => (new.target ? Reflect.construct(fn, args, new.target) : Reflect.apply(fn, this, args));
      const call = read(args);
      if (isGenerator) return each(isAsync ? answer(...call, run) : answerSync(...call, run), isAsync);
      return isAsync ? answer(...call, run) : answerSync(...call, run);
    };
    Object.defineProperties(replacement, {
      name: { value: fn.name, configurable: true },
      length: { value: fn.length, configurable: true },
      toString: { value: () => Function.prototype.toString.call(fn), configurable: true },
    });
    Object.assign(replacement, fn);
    replacements.set(fn, replacement);
    replaced.add(replacement);
    return replacement;
  }
}

/** Return a generator of a recorded list, or of the one value that was recorded; as the tool's own it may run. */
function each(result, isAsync) {
  const items = (value) => (typeof value?.next === "function" || Array.isArray(value) ? value : [value]);
  if (!isAsync) return (function* () { yield* items(result); })();
  return (async function* () { yield* items(await result); })();
}

/** Return arguments as an object: the text of one is decoded, other text is kept as `{_raw: text}`. */
export function decoded(args) {
  if (typeof args !== "string") return args && typeof args === "object" ? args : args == null ? {} : { _raw: args };
  try {
    const value = args.trim() ? JSON.parse(args) : {};
    return value && typeof value === "object" && !Array.isArray(value) ? value : { _raw: args };
  } catch {
    return { _raw: args };
  }
}

/** Return the arguments of a call by name. One object, alone or before a context, holds them itself. */
function named(parameters, args) {
  const [first, ...others] = args;
  const isObject = first !== null && typeof first === "object" && !Array.isArray(first);
  const own = (parameters ?? []).filter((each, index) => index === 0 || !(each.name && CONTEXT.test(each.name)));
  if (isObject && (own.length <= 1 || (!parameters?.length && others.every((each) => typeof each === "object"))))
    return { ...first };
  return Object.fromEntries(
    args
      .map((value, index) => [parameters?.[index]?.name ?? `_${index}`, value, parameters?.[index]])
      .filter(([, value, each]) => value !== undefined && !(each && !own.includes(each)))
      .map(([name, value]) => [name, value]),
  );
}

/** Return whether a function gives a promise: an async one, or one whose text speaks of promises. */
function returnsPromise(fn) {
  if (/^Async/.test(fn.constructor?.name ?? "")) return true;
  return /\bawait\b|\bPromise\b|\.then\(|__awaiter|asyncToGenerator/.test(Function.prototype.toString.call(fn));
}

function isClass(value) {
  return typeof value === "function" && /^class\b/.test(Function.prototype.toString.call(value));
}

function set(owner, name, value) {
  if (!Reflect.set(owner, name, value) || owner[name] !== value)
    Object.defineProperty(owner, name, { value, writable: true, configurable: true, enumerable: true });
}

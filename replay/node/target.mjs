// How the agent is called: a function, a class, or an agent object of a framework.

import { parametersOf } from "./parameters.mjs";
import { routeTarget } from "./route.mjs";

const METHODS = ["invoke", "generate", "run", "chat", "answer", "reply"];
const MESSAGES = /^(messages|history|conversation)$/;
const OPTIONS = /^_*(args|options?|opts|config|settings|params)$/;

/** The version can never run; the text says why in one sentence. */
export class Unusable extends Error {}

/**
 * Return `{call, takes, signature}` of an exported value.
 *
 * @param value what the entrypoint names
 * @param owner the object it is a method of; undefined where it is none
 * @param label for messages, as in `src/agent.ts#runAgent`
 * @param args of the version
 */
export function targetOf(value, owner, label, args) {
  if (typeof value === "function" && /[#.]POST$/.test(label)) return routeTarget(value, label, args);
  if (typeof value === "function") return ofFunction(value, owner, label, args);
  const method = METHODS.find((name) => typeof value?.[name] === "function");
  if (!method)
    throw new Unusable(`${label} is ${value === null ? "null" : `a value of type ${typeof value}`} and cannot be called; an agent is a function, or an object with ${METHODS.join(", ")}`);
  const signature = `${label}.${method}(messages)`;
  if (method === "invoke" && typeof value.stream === "function")
    return { takes: "messages", signature, call: ({ messages }) => value.invoke({ messages, ...args }) };
  if (method === "generate") {
    const takesOptions = typeof value.version === "string" && value.version.startsWith("agent-v");
    const call = ({ messages }) => (takesOptions ? value.generate({ messages, ...args }) : value.generate(messages, args));
    return { takes: "messages", signature, call };
  }
  return ofFunction(value[method], value, `${label}.${method}`, args);
}

/** Call a factory or class with those of the version's arguments that it names, and take them out. */
export async function construct(make, label, args) {
  const names = (parametersOf(make) ?? []).flatMap((each) => each.fields ?? each.name);
  const chosen = Object.fromEntries(names.filter((name) => name in args).map((name) => [name, args[name]]));
  for (const name of Object.keys(chosen)) delete args[name];
  const first = parametersOf(make)?.[0];
  const values = first?.fields ? [chosen] : names.map((name) => chosen[name]);
  try {
    return await (isClass(make) ? new make(...values) : make(...values));
  } catch (error) {
    throw new Unusable(`${label} does not give an agent: ${error}`);
  }
}

export function isClass(value) {
  return typeof value === "function" && /^class\b/.test(Function.prototype.toString.call(value));
}

function ofFunction(fn, owner, label, args) {
  const parameters = parametersOf(fn);
  if (!parameters?.length) {
    if (parameters) throw new Unusable(`${label}() has no parameter for the user's message`);
    return { takes: "text", signature: `${label}(…)`, call: ({ input }) => fn.call(owner, input, args) };
  }
  const [first, ...others] = parameters;
  const signature = `${label}(${parameters.map((each) => (each.fields ? `{ ${each.fields.join(", ")} }` : each.name)).join(", ")})`;
  const rest = {};
  const values = [];
  const left = { ...args };
  for (const [index, each] of others.entries()) {
    if (each.name in args) {
      values[index] = args[each.name];
      delete left[each.name];
    } else if (each.fields || OPTIONS.test(each.name)) values[index] = rest;
    else if (!each.optional)
      throw new Unusable(`${label}() also needs ${each.name}; give it in args of the version, or name an entrypoint that needs the user's message alone`);
  }
  const takesRest = others.some((each) => each.fields || OPTIONS.test(each.name ?? ""));
  if (Object.keys(left).length && !takesRest && !first.fields)
    throw new Unusable(`${label}() takes no argument ${Object.keys(left)[0]}; it takes ${parameters.map((each) => each.name ?? "an object").join(", ")}`);
  Object.assign(rest, left);
  if (first.fields) {
    const takesMessages = first.fields.some((field) => MESSAGES.test(field));
    const field = first.fields.find((name) => MESSAGES.test(name) || !(name in args));
    const call = (trial) => fn.call(owner, { ...left, [field]: takesMessages ? trial.messages : trial.input }, ...values);
    return { takes: takesMessages ? "messages" : "text", signature, call };
  }
  const takes = MESSAGES.test(first.name) ? "messages" : "text";
  return { takes, signature, call: (trial) => fn.call(owner, takes === "text" ? trial.input : trial.messages, ...values) };
}

// How the agent is called: a function, a class, or an agent object of a framework.

import { parametersOf } from "./parameters.mjs";
import { routeTarget } from "./route.mjs";

const METHODS = ["invoke", "generate", "run", "chat", "answer", "reply"];
const MESSAGES = /^(messages|history|conversation)$/;
const OPTIONS = /^_*(args|options?|opts|config|settings|params)$/;
/** The id of a conversation that the agent keeps itself; without `id` in it, where a parameter is required. */
const THREAD_ID = /^(session|thread|conversation|chat)_?id$/i;
const THREAD = /^(session|thread|chat)$/;

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
  const thread = threadOf(parameters, args);
  const threadFields = (each) => (each.fields ?? []).filter((name) => THREAD_ID.test(name) && !(name in args));
  const first = parameters.find((each) => each !== thread && !(each.name in args) && !(thread && OPTIONS.test(each.name)));
  const isMessage = (name) => MESSAGES.test(name) || !(name in args || THREAD_ID.test(name));
  const field = first?.fields?.find(isMessage);
  if (!first || (first.fields && !field)) throw new Unusable(`${label}() has no parameter for the user's message`);
  const signature = `${label}(${parameters.map((each) => (each.fields ? `{ ${each.fields.join(", ")} }` : each.name)).join(", ")})`;
  const takesMessages = (first.fields ?? [first.name]).some((name) => MESSAGES.test(name));
  const message = (trial) => (takesMessages ? trial.messages : trial.input);
  const withThread = (each, trial) => Object.fromEntries(threadFields(each).map((name) => [name, trial.thread]));
  const rest = {};
  const left = { ...args };
  // By position, what makes the value for a trial.
  const values = [];
  for (const [index, each] of parameters.entries()) {
    if (each === first && field) values[index] = (trial) => ({ ...left, ...withThread(each, trial), [field]: message(trial) });
    else if (each === first) values[index] = message;
    else if (each === thread) values[index] = (trial) => trial.thread;
    else if (each.name in args) {
      values[index] = () => args[each.name];
      delete left[each.name];
    } else if (each.fields || OPTIONS.test(each.name)) values[index] = (trial) => ({ ...rest, ...withThread(each, trial) });
    else if (!each.optional)
      throw new Unusable(`${label}() also needs ${each.name}; give it in args of the version, or name an entrypoint that needs the user's message alone`);
  }
  const takesRest = parameters.some((each) => each !== first && (each.fields || OPTIONS.test(each.name)));
  if (Object.keys(left).length && !takesRest && !first.fields)
    throw new Unusable(`${label}() takes no argument ${Object.keys(left)[0]}; it takes ${parameters.map((each) => each.name ?? "an object").join(", ")}`);
  Object.assign(rest, left);
  const keepsThread = thread || parameters.some((each) => threadFields(each).length);
  const takes = takesMessages ? "messages" : keepsThread ? "thread" : "text";
  return { takes, signature, call: (trial) => fn.call(owner, ...values.map((make) => make(trial))) };
}

/** Return the parameter for the id of the conversation, beside one for the message; undefined without one. */
function threadOf(parameters, args) {
  const open = parameters.filter((each) => !(each.name in args) && !OPTIONS.test(each.name) && !each.rest);
  const takesMessages = open.some((each) => MESSAGES.test(each.name));
  const names = open.filter((each) => !each.fields).length;
  return open.find(
    ({ name, optional }) =>
      (THREAD_ID.test(name) && parameters.length > 1 && !(optional && takesMessages)) ||
      (THREAD.test(name) && names > 1 && !optional),
  );
}

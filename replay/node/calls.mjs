// The tools channel: a tool call goes out, its answer comes in, from any async context of the agent.
//
// A question is written and its answer read synchronously, so that a synchronous tool can be answered as
// well; the engine answers from memory. The messages are described in `replay/worker/main.py`.

import { AsyncLocalStorage } from "node:async_hooks";
import { readSync, writeSync } from "node:fs";

export const TRIAL = new AsyncLocalStorage();
/** The name of the tool that runs for real, while it does. */
export const LIVE = new AsyncLocalStorage();
/** Trial → what ends it; those that have begun and not ended. */
export const running = new Map();
export const LARGEST_LINE = 64 * 1024 * 1024;

let channel = -1;
let unread = Buffer.alloc(0);
let hasBegun = false;

/** The trial ends at this tool call. Thrown only to synchronous callers: an async one waits for ever. */
export class Stopped extends Error {
  name = "Stopped";
}

/** Ask through a file descriptor, a blocking socket. */
export function open(descriptor) {
  channel = descriptor;
}

/** Begin a trial; `end` is called with the reason where a tool call ends it. */
export function begin(trial, end) {
  hasBegun = true;
  running.set(trial, end);
}

/** Return a value as one line of JSON. */
export function encode(message) {
  return Buffer.from(`${JSON.stringify(message, plain)}\n`);
}

/**
 * Answer a tool call of an async caller: a promise of the recorded result, or of what the tool gives where it
 * may run. It rejects with the recorded error, and is never settled where the trial ends.
 *
 * @param name of the tool
 * @param args by name
 * @param run runs the tool
 * @param convert makes the recorded result what the caller expects
 * @param fail makes the exception of a recorded error
 */
export async function answer(name, args, run, convert = (result) => result, fail = (text) => new Error(text)) {
  // A tool that may run may consist of several functions that are replaced.
  if (LIVE.getStore() === name) return run();
  let reply;
  try {
    reply = ask(name, args);
  } catch (error) {
    if (error instanceof Stopped) return new Promise(() => {});
    throw error;
  }
  if ("error" in reply) throw fail(reply.error);
  if (!("live" in reply)) return convert(reply.result);
  return report(reply, await outcomeOf(() => LIVE.run(name, run)));
}

/** Answer a tool call of a synchronous caller. */
export function answerSync(name, args, run) {
  if (LIVE.getStore() === name) return run();
  const reply = ask(name, args);
  if ("error" in reply) throw new Error(reply.error);
  if (!("live" in reply)) return reply.result;
  try {
    return report(reply, { result: LIVE.run(name, run) });
  } catch (error) {
    if (!(error instanceof Stopped)) report(reply, { error: String(error) });
    throw error;
  }
}

/** Have the trial of the running code count for nothing. */
export function refuse(reason) {
  running.get(current())?.(reason);
  return new Stopped(reason);
}

async function outcomeOf(run) {
  try {
    return { result: await run() };
  } catch (thrown) {
    return { error: String(thrown), thrown };
  }
}

function report({ trial, live }, { result, error, thrown }) {
  try {
    const line = encode({ trial, ran: live, ...(error === undefined ? { result: result ?? null } : { error }) });
    if (line.length <= LARGEST_LINE) send(line);
  } catch {
    // What cannot be written is left out.
  }
  if (thrown !== undefined) throw thrown;
  return result;
}

function current() {
  // Code that is older than every trial; with one trial at a time there is no doubt whose call it is.
  return TRIAL.getStore() ?? (running.size === 1 ? running.keys().next().value : undefined);
}

function ask(name, args) {
  if (channel < 0) throw new Error(`${name} was called in a thread or process that the agent started; it was not run`);
  const trial = current();
  if (trial === undefined && !hasBegun)
    throw new Error(
      `${name} was called before the first trial, while the agent was being imported; ` +
        "a function that makes tools is no tool itself: name the tools that it makes, or their framework",
    );
  if (trial === undefined && running.size)
    throw new Error(`${name} was called from code that belongs to no trial, such as a queue; isolation = "trial" in [run] runs each trial alone`);
  if (!running.has(trial)) throw new Stopped("the trial is over");
  let line;
  try {
    line = encode({ trial, name, args: args ?? {} });
  } catch (error) {
    throw new Error(`the arguments of ${name} cannot be written as JSON: ${error.message}`);
  }
  if (line.length > LARGEST_LINE) throw new Error(`the arguments of ${name} are longer than ${LARGEST_LINE >> 20} MB`);
  send(line);
  const reply = JSON.parse(readLine());
  if ("stop" in reply) {
    running.get(trial)(reply.stop);
    throw new Stopped(reply.stop);
  }
  return { ...reply, trial };
}

function send(line) {
  for (let sent = 0; sent < line.length; ) sent += writeSync(channel, line, sent);
}

function readLine() {
  for (;;) {
    const end = unread.indexOf(10);
    if (end >= 0) {
      const line = unread.toString("utf8", 0, end);
      unread = unread.subarray(end + 1);
      return line;
    }
    const chunk = Buffer.alloc(1 << 16);
    const size = readSync(channel, chunk);
    if (!size) process.exit(1);
    unread = Buffer.concat([unread, chunk.subarray(0, size)]);
  }
}

/** Return a JSON value of what JSON.stringify cannot write. */
function plain(key, value) {
  if (typeof value === "bigint") return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  if (value instanceof Map) return Object.fromEntries(value);
  if (value instanceof Set) return [...value];
  if (value instanceof Error) return String(value);
  return value;
}

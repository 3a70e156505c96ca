// The script of a Node worker: runs an agent in its own folder, as `replay/worker/main.py` does for Python.
//
// Started as `node --import child.mjs main.mjs CONTROL TOOLS LIFE`, three file descriptors, with the messages described there;
// a trial's reply has `value`, what the agent returned, instead of `answer`. It runs many trials at a time,
// as Python's async workers do. An entrypoint is `FILE#EXPORT[.ATTRIBUTE…]`; a tool is one too, optionally
// with ` as NAME`, or the name of a framework.
//
// Works on Node 20.6 and later, with its standard library alone.

import { Socket } from "node:net";
import { Worker as Thread } from "node:worker_threads";

import * as answers from "./answers.mjs";
import { Observer } from "./boundary.mjs";
import * as calls from "./calls.mjs";
import { Patches, imported, parsed, useTypeScript, versionOf } from "./patches.mjs";
import { Unusable, construct, isClass, targetOf } from "./target.mjs";

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
      const reason = error instanceof Unusable ? error.message : `the worker failed: ${answers.sentence(error)}`;
      this.send({ failed: reason, blocked: [], ...this.#observer.before() });
      this.#control.end();
    }
  }

  async #ready({ entrypoint, factory, tools, live, args, packages }) {
    const patches = new Patches(tools, live, process.cwd());
    const target = parsed(entrypoint, "entrypoint");
    await useTypeScript([target, ...patches.points]);
    patches.install();
    openToChildren(tools, live);
    const module = await imported(target, "entrypoint");
    await patches.complete();
    this.#target = await this.#resolved(module, target, factory, args);
    return {
      mode: "async",
      takes: this.#target.takes,
      signature: this.#target.signature,
      tools: patches.names,
      patched: patches.paths,
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
      const value = (async () => answers.read(await this.#target.call(order)))();
      return { value: (await Promise.race([ended, value])) ?? null, ms: performance.now() - began };
    } catch (error) {
      const ms = performance.now() - began;
      if (error instanceof calls.Stopped) return { ms, failed: answers.failed("agent_error", error.message) };
      const failed = answers.failure(error);
      return { ms, failed: { ...failed, reason: failed.reason + this.#observer.explanation(failed.reason) } };
    }
  }
}

/** Return the versions of Node and of those packages that are installed and matter. */
function versions() {
  const installed = PACKAGES.map((name) => [name, versionOf(name)]).filter(([, version]) => version);
  return { node: process.versions.node, ...Object.fromEntries(installed) };
}

/** Have threads and Node processes that the agent starts refuse its tools, as `child.mjs` does. */
function openToChildren(tools, live) {
  if (!tools.length) return;
  process.env.REPLAYDIFF_NODE = JSON.stringify({ tools, live, folder: process.cwd() });
  process.env.NODE_OPTIONS = `${process.env.NODE_OPTIONS ?? ""} --import ${new URL("child.mjs", import.meta.url)}`;
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

// Mastra: what a `Tool` does asks, and so does a plain tool object that an agent is given. An agent calls a
// tool by the name it has there; called directly, it has its `id`.

import { AsyncLocalStorage } from "node:async_hooks";

import { answer } from "../calls.mjs";
import { withExecute } from "./tool.mjs";

const CALLED = new AsyncLocalStorage();
const instances = new WeakSet();

export default {
  key: "mastra",
  package: "@mastra/core",
  supported: ["1"],
  modules: [{ pattern: "/@mastra/core/dist/[^/]+\\.c?js$", names: ["Tool", "CoreToolBuilder"] }],
  replacing: (tools) => (name, made) =>
    new Proxy(made, {
      construct: (target, [options, ...others], newTarget) =>
        name === "Tool" ? tool(target, options, newTarget) : Reflect.construct(target, [built(options, tools), ...others], newTarget),
    }),
};

function tool(Tool, options, newTarget) {
  const { execute, id } = options;
  const asks = (input, ...context) => answer(CALLED.getStore() ?? id, input, () => execute(input, ...context));
  const instance = Reflect.construct(Tool, [execute ? { ...options, execute: asks } : options], newTarget);
  instances.add(instance);
  return instance;
}

function built(input, { see }) {
  const { originalTool: original, options } = input;
  if (typeof original.execute !== "function") return input;
  see(options.name);
  const execute = (args, ...context) => {
    const run = () => original.execute(args, ...context);
    return instances.has(original) ? CALLED.run(options.name, run) : answer(options.name, args, run);
  };
  return { ...input, originalTool: withExecute(original, execute) };
}

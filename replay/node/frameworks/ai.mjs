// Vercel AI SDK: a call of `generateText`, `streamText` (and of agents, which call them) gets tools whose
// `execute` asks.

import { answer } from "../calls.mjs";
import { withExecute } from "./tool.mjs";

export default {
  key: "ai",
  package: "ai",
  supported: ["6", "7"],
  modules: [{ pattern: "/node_modules/ai/dist/[^/]+\\.m?js$", names: ["generateText", "streamText", "streamTextLowMemory"] }],
  replacing: (tools) => (name, call) =>
    function (options, ...others) {
      return call.call(this, { ...options, ...answered(options, tools) }, ...others);
    },
};

function answered(options, { see, live, refuse }) {
  if (!options?.tools) return {};
  const replaced = Object.entries(options.tools).map(([name, tool]) => {
    if (typeof tool.execute === "function") {
      see(name);
      return [name, withExecute(tool, (input, ...context) => answer(name, input, () => tool.execute(input, ...context)))];
    }
    // A tool without `execute` is either the provider's, or the caller's own to run.
    if (/^provider/.test(tool.type ?? "") && !live.has(name))
      throw refuse(`${name} is run by the model's provider, so no recording can answer it; name it in \`live\` to allow it`);
    return [name, tool];
  });
  return { tools: Object.fromEntries(replaced) };
}

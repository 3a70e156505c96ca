// OpenAI Agents: `tool(…)` gets an `execute` that asks; what parses arguments and handles errors stays around
// it. Tools of MCP servers and agents as tools are made by it as well.

import { answer } from "../calls.mjs";

/** What the provider or this machine runs past `tool`. */
const HOSTED = [
  "webSearchTool", "fileSearchTool", "codeInterpreterTool", "imageGenerationTool", "hostedMcpTool", "computerTool",
  "shellTool", "applyPatchTool",
];

export default {
  key: "openai-agents",
  package: "@openai/agents",
  supported: ["0"],
  modules: [
    { pattern: "/@openai/agents-core/dist/tool\\.m?js$", names: ["tool", ...HOSTED] },
    { pattern: "/@openai/agents-openai/dist/tools\\.m?js$", names: HOSTED },
  ],
  replacing: ({ see, live, refuse }) => (name, make) =>
    name === "tool"
      ? (options) => {
          const { execute } = options;
          const run = (input, ...context) => answer(tool.name, input, () => execute(input, ...context));
          const tool = make({ ...options, name: options.name ?? execute.name, execute: run });
          see(tool.name);
          return tool;
        }
      : (options, ...others) => {
          const hosted = make(options, ...others);
          if (live.has(hosted.name)) return hosted;
          throw refuse(`${hosted.name} is no function tool, so no recording can answer it; name it in \`live\` to allow it`);
        },
};

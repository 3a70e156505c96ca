// Claude Agent SDK: the handlers of an in-process MCP server (`createSdkMcpServer`) ask. A call is recorded
// as the model names it, `mcp__SERVER__TOOL`. Claude Code's own tools run in its process, behind the boundary.

import { answer } from "../calls.mjs";
import { ToolFailed, asFailure, asResult } from "./tool.mjs";

export default {
  key: "claude-agent-sdk",
  package: "@anthropic-ai/claude-agent-sdk",
  supported: ["0"],
  modules: [{ pattern: "/@anthropic-ai/claude-agent-sdk/sdk\\.mjs$", names: ["createSdkMcpServer"] }],
  replacing: ({ see }) => (name, create) => (options) =>
    create({
      ...options,
      tools: options.tools?.map((tool) => {
        const called = `mcp__${options.name}__${tool.name}`;
        see(called);
        const handler = async (args, ...context) => {
          const run = () => tool.handler(args, ...context);
          try {
            return await answer(called, args, run, asResult, (text) => new ToolFailed(text));
          } catch (error) {
            if (error instanceof ToolFailed) return asFailure(error);
            throw error;
          }
        };
        return { ...tool, handler };
      }),
    }),
};

// Model Context Protocol: a client calls tools through `Client.callTool`. The client itself is real: it
// connects, and lists the server's tools.

import { answer } from "../calls.mjs";
import { ToolFailed, asFailure, asResult } from "./tool.mjs";

export default {
  key: "mcp",
  package: "@modelcontextprotocol/sdk",
  supported: ["1"],
  modules: [{ pattern: "/@modelcontextprotocol/sdk/dist/(esm|cjs)/client/index\\.js$", names: ["Client"] }],
  replacing: ({ see }) => (name, Client) => {
    const { callTool } = Client.prototype;
    Client.prototype.callTool = async function (params, ...others) {
      see(params.name);
      const run = () => callTool.call(this, params, ...others);
      try {
        return await answer(params.name, params.arguments, run, asResult, (text) => new ToolFailed(text));
      } catch (error) {
        if (error instanceof ToolFailed) return asFailure(error);
        throw error;
      }
    };
    return Client;
  },
};

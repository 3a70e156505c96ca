// LangChain and LangGraph: every tool is called through `StructuredTool.call`, with its `_call` asking. What
// parses arguments, runs callbacks and makes a ToolMessage stays around it.

import { answer } from "../calls.mjs";

export default {
  key: "langchain",
  package: "@langchain/core",
  supported: ["1"],
  modules: [{ pattern: "/@langchain/core/dist/tools/index\\.c?js$", names: ["StructuredTool"] }],
  replacing: ({ see }) => (name, StructuredTool) => {
    const { call } = StructuredTool.prototype;
    StructuredTool.prototype.call = function (arg, ...others) {
      see(this.name);
      const run = (...args) => this._call(...args);
      const convert = (recorded) => (this.responseFormat === "content_and_artifact" ? pair(recorded) : recorded);
      const _call = (input, ...context) =>
        answer(this.name, typeof input === "string" ? { input } : input, () => run(input, ...context), convert);
      return call.call(Object.create(this, { _call: { value: _call } }), arg, ...others);
    };
    return StructuredTool;
  },
};

function pair(recorded) {
  return Array.isArray(recorded) && recorded.length === 2 ? recorded : [recorded, undefined];
}

// The frameworks whose tools are answered. Each is a module of `frameworks/`, and taken out with its line.
//
// A framework has `key`, its name in `tools`; `package`, which must be installed in a major version of
// `supported`; `modules`, `[{pattern, names}]`: what is replaced in which files (a pattern of their URL); and
// `replacing(tools)`, which returns what is called with the name and the value of each definition and returns
// what takes its place. `tools` has `see(name)`, which reports a tool, `live`, the names that may run, and
// `refuse(reason)`, which ends the trial and returns what is to be thrown.

import ai from "./frameworks/ai.mjs";
import claudeAgentSdk from "./frameworks/claude_agent_sdk.mjs";
import langchain from "./frameworks/langchain.mjs";
import mastra from "./frameworks/mastra.mjs";
import mcp from "./frameworks/mcp.mjs";
import openaiAgents from "./frameworks/openai_agents.mjs";

const ALL = [ai, claudeAgentSdk, langchain, mastra, mcp, openaiAgents];

export const FRAMEWORKS = Object.fromEntries(ALL.map((framework) => [framework.key, framework]));

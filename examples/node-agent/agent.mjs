// A support agent in Node that replay can run: no package needed, Node 18 or newer.
//
// It reads requests from standard input, one JSON object a line, and writes one answer a line. Everything that
// is replay's is in this file's last twenty lines and in `callTool`; the agent itself knows nothing of it.
import { createInterface } from "node:readline";

// The tools as they run in production.
const tools = {
  get_order_status: async () => { throw new Error("the shop is not reachable from an example"); },
  cancel_order: async () => { throw new Error("the shop is not reachable from an example"); },
};

// In production a tool call runs the tool. In a replay it asks the tape.
async function callTool(name, args, toolsUrl) {
  if (!toolsUrl) return tools[name](args);
  const response = await fetch(toolsUrl, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ name, args }),
  });
  const answer = await response.json();
  if (answer.stop) throw new Error(answer.stop);      // nothing recorded answers: the trial is over
  if (answer.error) throw new Error(answer.error);    // the tool failed when it was recorded, and so does it now
  return answer.result;
}

// The agent. A real one would ask a model; this one decides by itself, so that the example needs no key.
async function answer(text, { careful = true }, call) {
  const order = /\d{3,}/.exec(text)?.[0];
  if (!order) return "Which order is it about?";
  const status = await call("get_order_status", { order_id: order });
  if (!/cancel/i.test(text)) return `Order ${order} is ${status}.`;
  if (careful && !/yes/i.test(text)) return `Order ${order} is ${status}. Shall I really cancel it?`;
  return `Done: ${await call("cancel_order", { order_id: order })}.`;
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  const toolCalls = [];
  const call = (name, args) => {
    toolCalls.push({ name, args });
    return callTool(name, args, request.tools_url);
  };
  console.log(`looking at ${request.item}`);         // printing harms nobody: it is no answer
  try {
    const text = await answer(request.input, request.args, call);
    console.log(JSON.stringify({ trial: request.trial, final_response: text, tool_calls: toolCalls }));
  } catch (error) {
    console.log(JSON.stringify({ trial: request.trial, error: String(error.message ?? error) }));
  }
}

import { DynamicStructuredTool, StructuredTool, tool } from "@langchain/core/tools";
import { MessagesAnnotation, StateGraph } from "@langchain/langgraph";
import { ToolNode, createReactAgent, toolsCondition } from "@langchain/langgraph/prebuilt";
import { ChatOpenAI } from "@langchain/openai";
import { z } from "zod";

import { real } from "./canary.mjs";

const model = new ChatOpenAI({ model: "stand-in", apiKey: "k", maxRetries: 0, configuration: { baseURL: `${process.env.MODEL_URL}/v1` } });
const schema = z.object({ order_id: z.string() });
const getOrder = tool(async ({ order_id }) => real(`get_order ${order_id}`), { name: "get_order", description: "Get", schema });

class CancelOrder extends StructuredTool {
  name = "cancel_order";
  description = "Cancel";
  schema = schema;
  async _call({ order_id }) {
    return real(`cancel_order ${order_id}`);
  }
}

const tools = () => [getOrder, new CancelOrder()];

export const graph = createReactAgent({ llm: model, tools: tools() });

export async function runAgent(text) {
  const own = tools();
  const bound = model.bindTools(own);
  const workflow = new StateGraph(MessagesAnnotation)
    .addNode("agent", async ({ messages }) => ({ messages: [await bound.invoke(messages)] }))
    .addNode("tools", new ToolNode(own))
    .addEdge("__start__", "agent")
    .addConditionalEdges("agent", toolsCondition)
    .addEdge("tools", "agent")
    .compile();
  return workflow.invoke({ messages: [{ role: "user", content: text }] });
}

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Agent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { z } from "zod";

import { real } from "./canary.mjs";

const provider = createOpenAICompatible({ name: "stand-in", apiKey: "k", baseURL: `${process.env.MODEL_URL}/v1` });
const inputSchema = z.object({ order_id: z.string() });
const getOrder = createTool({ id: "get-order", description: "Get", inputSchema, execute: async (input) => real(`get_order ${input.order_id}`) });
const cancelOrder = { description: "Cancel", parameters: inputSchema, execute: async ({ order_id }) => real(`cancel_order ${order_id}`) };

export const agent = new Agent({
  id: "shop",
  name: "shop",
  instructions: "Help.",
  model: provider("stand-in"),
  tools: { get_order: getOrder, cancel_order: cancelOrder },
});

export async function runAgent(text) {
  const { text: answer } = await agent.generate(text);
  return answer;
}

export async function streamed(text) {
  const output = await agent.stream(text);
  return output.text;
}

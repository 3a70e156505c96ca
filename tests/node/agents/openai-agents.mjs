import { Agent, OpenAIChatCompletionsModel, run, tool, webSearchTool } from "@openai/agents";
import OpenAI from "openai";
import { z } from "zod";

import { real } from "./canary.mjs";

const client = new OpenAI({ apiKey: "k", baseURL: `${process.env.MODEL_URL}/v1`, maxRetries: 0 });
const model = new OpenAIChatCompletionsModel(client, "stand-in");
const parameters = z.object({ order_id: z.string() });
const getOrder = tool({ name: "get_order", description: "Get", parameters, execute: async ({ order_id }) => real(`get_order ${order_id}`) });

function make(...more) {
  const cancelOrder = tool({ name: "cancel_order", description: "Cancel", parameters, execute: ({ order_id }) => real(`cancel_order ${order_id}`) });
  return new Agent({ name: "shop", model, tools: [getOrder, cancelOrder, ...more] });
}

export async function runAgent(text) {
  return run(make(), text);
}

export async function streamed(text) {
  const result = await run(make(), text, { stream: true });
  await result.completed;
  return result;
}

export async function hosted(text) {
  return run(make(webSearchTool()), text);
}

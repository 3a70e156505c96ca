import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import * as ai from "ai";
import { z } from "zod";

import { real } from "./canary.mjs";

const { Experimental_Agent, generateText, stepCountIs, streamText, tool } = ai;
const provider = createOpenAICompatible({ name: "stand-in", apiKey: "k", baseURL: `${process.env.MODEL_URL}/v1`, includeUsage: true });
const model = provider("stand-in");
const orderId = z.object({ order_id: z.string() });
const getOrder = tool({ description: "Get", inputSchema: orderId, execute: async ({ order_id }) => real(`get_order ${order_id}`) });

function tools() {
  return {
    get_order: getOrder,
    // Made at call time.
    cancel_order: tool({ description: "Cancel", inputSchema: orderId, execute: async ({ order_id }) => real(`cancel_order ${order_id}`) }),
  };
}

const settings = () => ({ model, tools: tools(), stopWhen: stepCountIs(5), maxRetries: 0 });

export async function runAgent(prompt) {
  return generateText({ ...settings(), prompt });
}

export async function streamed(prompt) {
  return streamText({ ...settings(), prompt });
}

export const agent = new Experimental_Agent({ ...settings() });

export async function hosted(prompt) {
  const search = { type: "provider-defined", id: "x.web_search", name: "web_search", args: {}, inputSchema: z.object({}) };
  return generateText({ model, tools: { web_search: search }, prompt });
}

export async function POST(request) {
  const { messages } = await request.json();
  const result = streamText({ ...settings(), messages: await ai.convertToModelMessages(messages) });
  return result.toUIMessageStreamResponse();
}

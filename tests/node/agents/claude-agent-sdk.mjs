import { createSdkMcpServer, query, tool } from "@anthropic-ai/claude-agent-sdk";
import { z } from "zod";

import { real } from "./canary.mjs";

function shop() {
  const order = { order_id: z.string() };
  const named = (name) => tool(name, name, order, async ({ order_id }) => ({ content: [{ type: "text", text: real(`${name} ${order_id}`) }] }));
  return createSdkMcpServer({ name: "shop", version: "1.0.0", tools: [named("get_order"), named("cancel_order")] });
}

export async function runAgent(prompt) {
  const options = {
    mcpServers: { shop: shop() },
    allowedTools: ["mcp__shop__get_order", "mcp__shop__cancel_order"],
    maxTurns: 6,
    settingSources: [],
    env: { ...process.env, ANTHROPIC_BASE_URL: process.env.MODEL_URL, ANTHROPIC_API_KEY: "k", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1" },
  };
  for await (const message of query({ prompt, options })) if (message.type === "result") return message;
}

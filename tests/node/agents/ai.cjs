const { createOpenAICompatible } = require("@ai-sdk/openai-compatible");
const { generateText, stepCountIs, tool } = require("ai");
const { z } = require("zod");

const provider = createOpenAICompatible({ name: "stand-in", apiKey: "k", baseURL: `${process.env.MODEL_URL}/v1` });
const named = (name) =>
  tool({ description: name, inputSchema: z.object({ order_id: z.string() }), execute: () => Promise.reject(new Error(`real ${name}`)) });

exports.runAgent = (prompt) =>
  generateText({
    model: provider("stand-in"),
    tools: { get_order: named("get_order"), cancel_order: named("cancel_order") },
    stopWhen: stepCountIs(5),
    prompt,
  });

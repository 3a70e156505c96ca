// Mastra's agents under its exporter of OpenTelemetry: node mastra_agents.mjs MODEL_URL FILE MODE < scenarios, one a line.
import { appendFileSync, readFileSync } from "node:fs";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Agent } from "@mastra/core/agent";
import { Mastra } from "@mastra/core/mastra";
import { createTool } from "@mastra/core/tools";
import { Observability } from "@mastra/observability";
import { OtelExporter } from "@mastra/otel-exporter";
import { JsonTraceSerializer } from "@opentelemetry/otlp-transformer";
import { z } from "zod";

const [url, file, mode] = process.argv.slice(2);
const toFile = {
  export(spans, done) {
    appendFileSync(file, Buffer.from(JsonTraceSerializer.serializeRequest(spans)).toString() + "\n");
    done({ code: 0 });
  },
  shutdown: async () => {},
  forceFlush: async () => {},
};
const size = (city) => [...city].length;
const inputSchema = z.object({ city: z.string() });
const get_weather = createTool({
  id: "get_weather",
  description: "The weather of a city",
  inputSchema,
  execute: async ({ city }) => {
    await new Promise((resolve) => setTimeout(resolve, city === "Oslo" ? 30 : 0));
    if (city === "Atlantis") throw new Error("no such city");
    return `${size(city)} degrees in ${city}`;
  },
});
const get_time = createTool({
  id: "get_time",
  description: "The time in a city",
  inputSchema,
  execute: async ({ city }) => ({ city, hour: size(city), zones: [1, { dst: null }] }),
});
const model = createOpenAICompatible({ name: "stand-in", baseURL: `${url}/v1`, apiKey: "none", includeUsage: true })("gpt-5.2-mini");
const ask_expert = new Agent({ id: "ask_expert", name: "ask_expert", description: "Ask the expert", instructions: "Be kind.", model, tools: { get_weather } });
const support = new Agent({ id: "support", name: "support", instructions: "Be kind.", model, tools: { get_weather, get_time }, agents: { ask_expert }, maxRetries: 0 });
const exporter = new OtelExporter({ provider: { custom: { endpoint: "http://127.0.0.1:9", protocol: "http/json" } }, exporter: toFile, signals: { logs: false } });
const observability = new Observability({ configs: { otel: { serviceName: "shop", exporters: [exporter] } } });
const mastra = new Mastra({ agents: { support, ask_expert }, observability, logger: false });
const agent = mastra.getAgent("support");
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
for (const line of readFileSync(0, "utf-8").split("\n").filter(Boolean)) {
  const { name, text } = JSON.parse(line);
  const image = [{ role: "user", content: [{ type: "text", text }, { type: "image", image: `data:image/png;base64,${pixel}`, mimeType: "image/png" }] }];
  try {
    const asked = name === "image" ? image : text;
    if (mode.endsWith("stream")) await (await agent.stream(asked, { maxSteps: 5 })).consumeStream();
    else await agent.generate(asked, { maxSteps: 5 });
  } catch (error) {
    console.error(`${name}: ${error.message}`);
  }
}
await mastra.shutdown();

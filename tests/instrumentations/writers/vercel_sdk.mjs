// The AI SDK under its own OpenTelemetry integrations: node vercel.mjs MODEL_URL FILE MODE < prompts, one a line.
import { appendFileSync, readFileSync } from "node:fs";
import { LegacyOpenTelemetry, OpenTelemetry } from "@ai-sdk/otel";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { JsonTraceSerializer } from "@opentelemetry/otlp-transformer";
import { NodeTracerProvider, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-node";
import { generateText, registerTelemetry, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const [url, file, mode] = process.argv.slice(2);
const toFile = {
  export(spans, done) {
    appendFileSync(file, Buffer.from(JsonTraceSerializer.serializeRequest(spans)).toString() + "\n");
    done({ code: 0 });
  },
  shutdown: async () => {},
};
const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(toFile)] });
provider.register();
const tracer = provider.getTracer("ai");
registerTelemetry(mode.startsWith("legacy") ? new LegacyOpenTelemetry({ tracer }) : new OpenTelemetry({ tracer }));

const inputSchema = z.object({ city: z.string() });
const size = (city) => [...city].length;
const tools = {
  get_weather: tool({
    inputSchema,
    execute: async ({ city }) => {
      await new Promise((resolve) => setTimeout(resolve, city === "Oslo" ? 30 : 0));
      if (city === "Atlantis") throw new Error("no such city");
      return `${size(city)} degrees in ${city}`;
    },
  }),
  get_time: tool({
    inputSchema,
    execute: async ({ city }) => ({ city, hour: size(city), zones: [1, { dst: null }] }),
  }),
};
const model = createOpenAICompatible({ name: "stand-in", baseURL: `${url}/v1`, apiKey: "none", includeUsage: true })("gpt-5.2-mini");
const asked = { model, instructions: "Be kind.", stopWhen: stepCountIs(5), maxRetries: 0, telemetry: { isEnabled: true, recordInputs: true, recordOutputs: true } };
tools.ask_expert = tool({
  inputSchema: z.object({ input: z.string() }),
  execute: async ({ input }) => (await generateText({ ...asked, tools: { get_weather: tools.get_weather }, prompt: input })).text,
});
const pixel = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
for (const line of readFileSync(0, "utf-8").split("\n").filter(Boolean)) {
  const { name, text } = JSON.parse(line);
  const content = [{ type: "text", text }, { type: "file", data: pixel, mediaType: "image/png" }];
  const wanted = { ...asked, tools, ...(name === "image" ? { messages: [{ role: "user", content }] } : { prompt: text }) };
  try {
    if (mode.endsWith("stream")) {
      const running = streamText({ ...wanted, onError: () => {} });
      await running.consumeStream();
    } else await generateText(wanted);
  } catch (error) {
    console.error(`${name}: ${error.message}`);
  }
}
await provider.forceFlush();

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { z } from "zod";

import { real } from "./canary.mjs";

async function connected() {
  const server = new McpServer({ name: "shop", version: "1" });
  for (const name of ["get_order", "cancel_order"])
    server.registerTool(name, { inputSchema: { order_id: z.string() } }, async ({ order_id }) => ({
      content: [{ type: "text", text: real(`${name} ${order_id}`) }],
    }));
  const [ours, theirs] = InMemoryTransport.createLinkedPair();
  const client = new Client({ name: "agent", version: "1" });
  await Promise.all([server.connect(theirs), client.connect(ours)]);
  return client;
}

export async function runAgent(text) {
  const client = await connected();
  const texts = [];
  for (const round of JSON.parse(text))
    for (const [name, args] of round) {
      const { content } = await client.callTool({ name, arguments: args });
      texts.push(content[0].text);
    }
  await client.close();
  return texts.join(" ");
}

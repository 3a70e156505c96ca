// Agents whose message is the steps that they take: [[tool, args], …] as JSON.
import { appendFileSync } from "node:fs";

import { orders } from "./orders.mjs";
import { refund as refundOrder } from "./index.mjs";

// An effect that nobody may ever see.
function real(what) {
  appendFileSync(process.env.CANARY ?? "canary.txt", `${what}\n`);
  return `real ${what}`;
}

export function getOrder(orderId) {
  return real(`getOrder ${orderId}`);
}

export async function cancelOrder({ order_id }) {
  return real(`cancelOrder ${order_id}`);
}

export const noteOrder = async (order_id, text) => real(`noteOrder ${order_id} ${text}`);

export const TOOLS = {
  get_status: async ({ order_id }) => real(`get_status ${order_id}`),
  close: { name: "close_order", execute: async (input) => real(`close_order ${input.order_id}`) },
};

export const find = { execute: ({ order_id }) => real(`find ${order_id}`) };

export class Service {
  async ship({ order_id }) {
    return real(`ship ${order_id}`);
  }
}

export async function dispatch(name, args) {
  return real(`${name} ${JSON.stringify(args)}`);
}

const LOCAL = { getOrder, cancelOrder, noteOrder, refundOrder };

async function step(name, args) {
  if (name === "dispatch") return dispatch(args.name, JSON.stringify(args.args));
  if (name === "ship") return new Service().ship(args);
  if (name === "find") return find.execute(args);
  if (name === "listOrders") return orders.list(args);
  if (name in TOOLS) return (TOOLS[name].execute ?? TOOLS[name])(args);
  return name === "getOrder" ? LOCAL.getOrder(args.orderId) : name === "noteOrder" ? noteOrder(args.order_id, args.text) : LOCAL[name](args);
}

export async function runAgent(text) {
  const results = [];
  for (const [name, args] of JSON.parse(text)) results.push(await step(name, args));
  return { final_response: JSON.stringify(results), usage: { inputTokens: 3, outputTokens: 4 } };
}

export async function together(text) {
  return JSON.stringify(await Promise.all(JSON.parse(text).map(([name, args]) => step(name, args))));
}

export async function stubborn(text) {
  for (const [name, args] of JSON.parse(text)) await step(name, args).catch(() => real("after an error"));
  return "done";
}

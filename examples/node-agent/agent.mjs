// A support agent in Node. Nothing in it is about replay.

export async function get_order_status({ order_id }) {
  throw new Error(`the shop of order ${order_id} is not reachable from an example`);
}

export async function cancel_order({ order_id }) {
  throw new Error(`the shop of order ${order_id} is not reachable from an example`);
}

// A real agent would ask a model; this one decides by itself, so that the example needs no key.
export async function answer(text, { careful = true } = {}) {
  const order_id = /\d{3,}/.exec(text)?.[0];
  if (!order_id) return "Which order is it about?";
  const status = await get_order_status({ order_id });
  if (!/cancel/i.test(text)) return `Order ${order_id} is ${status}.`;
  if (careful && !/yes/i.test(text)) return `Order ${order_id} is ${status}. Shall I really cancel it?`;
  return `Done: ${await cancel_order({ order_id })}.`;
}

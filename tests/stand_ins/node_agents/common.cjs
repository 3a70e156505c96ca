"use strict";
const { appendFileSync } = require("node:fs");
const tools = require("./common_tools.cjs");

function cancel_order(args) {
  appendFileSync(process.env.CANARY ?? "canary.txt", "cancel_order\n");
  return Promise.resolve(`real ${args.order_id}`);
}

exports.cancel_order = cancel_order;
exports.runAgent = async function runAgent(messages) {
  const order_id = messages.at(-1).content;
  return `${this === undefined} ${await tools.get_order({ order_id })} ${await cancel_order({ order_id })}`;
};

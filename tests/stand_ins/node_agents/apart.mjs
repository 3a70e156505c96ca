import { execFileSync } from "node:child_process";
import { connect } from "node:net";
import { Worker, isMainThread, parentPort } from "node:worker_threads";

export async function cancel_order({ order_id }) {
  return `the real tool ran: ${order_id}`;
}

export async function* watch_order({ order_id }) {
  yield `the real tool ran: ${order_id}`;
}

const call = () => cancel_order({ order_id: "1" }).catch((error) => error.message);

export async function runAgent(text) {
  if (text === "process") return execFileSync("node", [import.meta.filename ?? new URL(import.meta.url).pathname, "call"]).toString();
  if (text === "thread") return new Promise((done) => new Worker(new URL(import.meta.url)).on("message", done));
  if (text === "connect") return new Promise((done) => connect(25, "198.51.100.7").on("error", (error) => done(error.code)));
  if (text === "watch") {
    const states = [];
    for await (const state of watch_order({ order_id: "1" })) states.push(state);
    return states.join();
  }
  return call();
}

if (!isMainThread) parentPort.postMessage(await call());
else if (process.argv[2] === "call") console.log(await call());

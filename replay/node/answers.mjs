// What an agent returned, as a JSON value for the engine; and what it threw, in one sentence.
//
// The engine reads the value as it reads that of a service (`replay.agents.exchange`). Results of the
// frameworks have getters, promises and nested objects, so only the fields that it reads are taken.

import { sep } from "node:path";
import { fileURLToPath } from "node:url";

const FOLDER = fileURLToPath(new URL(".", import.meta.url));
const TEXT_FIELDS = ["final_response", "text", "content", "result", "answer", "final_output", "finalOutput", "output", "reply"];
const OTHER_FIELDS = ["messages", "tool_calls", "cost_usd"];
const USAGE = { input_tokens: ["inputTokens", "promptTokens"], output_tokens: ["outputTokens", "completionTokens"] };
const PASSING = new Set([408, 409, 425, 429]);
const PASSING_CODES = /^(ECONN(REFUSED|RESET|ABORTED)|ETIMEDOUT|EPIPE|ENOTFOUND|EAI_AGAIN|ENETUNREACH|EHOSTUNREACH|UND_ERR_\w+)$/;
const PASSING_NAMES = /^(RateLimitError|APIConnectionError|APIConnectionTimeoutError|InternalServerError|OverloadedError)$/;
const LONGEST_TRACEBACK = 8000;
const LONGEST_TEXT = 500;

/** Return an agent's value with what the engine reads of it. */
export async function read(value) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return value ?? null;
  const answer = {};
  const body = value.response && TEXT_FIELDS.every((name) => value[name] === undefined) ? value.response : value;
  for (const name of [...OTHER_FIELDS, ...TEXT_FIELDS]) {
    const field = await body[name];
    if (field === undefined || typeof field === "function") continue;
    answer[name] = field;
    // Others may be getters that throw where they do not apply.
    if (TEXT_FIELDS.includes(name)) break;
  }
  // A run of OpenAI Agents keeps the whole conversation beside its output.
  if (answer.finalOutput !== undefined) answer.final_output ??= answer.finalOutput;
  delete answer.finalOutput;
  if (Array.isArray(answer.messages)) answer.messages = answer.messages.map(chat);
  const usage = await (value.totalUsage ?? value.usage ?? value.state?.usage ?? value.runContext?.usage);
  if (usage && typeof usage === "object") answer.usage = words(usage);
  return Object.keys(answer).length ? answer : value;
}

/** Return a message of LangChain in the words of OpenAI; any other as it is. */
function chat(message) {
  const type = typeof message?.getType === "function" ? message.getType() : undefined;
  if (!type) return message;
  const calls = message.tool_calls?.map(({ id, name, args }) => ({ id, function: { name, arguments: JSON.stringify(args) } }));
  return {
    role: { ai: "assistant", human: "user" }[type] ?? type,
    content: message.content,
    ...(calls?.length ? { tool_calls: calls } : {}),
  };
}

function words(usage) {
  const counts = { ...usage };
  for (const [name, others] of Object.entries(USAGE))
    counts[name] ??= others.map((each) => usage[each]).find((count) => typeof count === "number");
  return counts;
}

/** Describe how a trial failed whose agent threw this. */
export function failure(error) {
  for (let [cause, depth] = [error, 0]; cause && depth < 10; cause = cause.cause ?? cause.lastError ?? cause.errors?.[0], depth++) {
    const status = [cause.status, cause.statusCode, cause.response?.status].find((each) => Number.isInteger(each));
    const passing =
      status === undefined
        ? PASSING_CODES.test(cause.code ?? "") || PASSING_NAMES.test(cause.constructor?.name ?? "")
        : PASSING.has(status) || (status >= 500 && status <= 599);
    if (passing) return failed("infra_error", sentence(error), retryAfter(cause), traceback(error));
    if (status !== undefined) break;
  }
  return failed("agent_error", sentence(error), null, traceback(error));
}

export function failed(status, reason, retry_after_s = null, traceback = "") {
  return { status, reason, retry_after_s, traceback };
}

/** Return the end of an error's stack. */
function traceback(error) {
  return typeof error?.stack === "string" ? error.stack.slice(-LONGEST_TRACEBACK) : "";
}

/** Return class, text and place: `TypeError: x is not a function (src/agent.ts:41)`. */
export function sentence(error) {
  if (!(error instanceof Error)) return `the agent threw ${JSON.stringify(error) ?? String(error)}`.slice(0, LONGEST_TEXT);
  const cause = error.cause instanceof Error ? `: ${error.cause.message}` : "";
  const text = `${error.message}${cause}`.replaceAll(/\s+/g, " ").slice(0, LONGEST_TEXT);
  const at = lineOf(error.stack);
  return `${error.constructor?.name || error.name}: ${text}${at ? ` (${at})` : ""}`;
}

/** Return the innermost line of the user's own in a stack, `src/agent.ts:41`; null without one. */
export function lineOf(stack) {
  for (const line of String(stack).split("\n")) {
    const [, file, number] = /(?:\(|at |async )((?:file:\/\/)?\/[^)]*?):(\d+):\d+\)?$/.exec(line) ?? [];
    if (!file) continue;
    const path = file.startsWith("file://") ? fileURLToPath(file.split(/[?#]/, 1)[0]) : file;
    const root = process.cwd() + sep;
    if (path.startsWith(root) && !path.includes(`${sep}node_modules${sep}`) && !path.startsWith(FOLDER))
      return `${path.slice(root.length)}:${number}`;
  }
  return null;
}

function retryAfter(error) {
  const headers = error.headers ?? error.responseHeaders ?? error.response?.headers;
  const value = typeof headers?.get === "function" ? headers.get("retry-after") : headers?.["retry-after"];
  return value == null || !(Number(value) >= 0) ? null : Number(value);
}

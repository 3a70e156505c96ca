// A route handler as an agent: `POST` of Next.js and others, which takes a `Request` and returns a `Response`.
//
// It is sent what `useChat` of the AI SDK sends, with `content` beside `parts` for handlers of their own shape.
// It answers with text, JSON, or a stream of the AI SDK's messages.

/** Return a target (see `target.mjs`) of a handler. */
export function routeTarget(handler, label, args) {
  const call = async ({ messages }) => {
    const body = JSON.stringify({ id: "replay", trigger: "submit-message", messages: messages.map(message), ...args });
    const headers = { "content-type": "application/json" };
    const response = await handler(new Request("http://localhost/", { method: "POST", headers, body }), {});
    const text = await response.text();
    // A bare 500 is how a handler says that it threw.
    if (!response.ok) throw Object.assign(new Error(text || `status ${response.status}`), response.status === 500 ? {} : { status: response.status });
    const type = response.headers.get("content-type") ?? "";
    return type.includes("json") ? JSON.parse(text) : type.includes("event-stream") ? streamed(text) : text;
  };
  return { takes: "messages", signature: `${label}(Request)`, call };
}

function message({ role, content }, index) {
  const text = typeof content === "string" ? content : (content ?? []).map((part) => part.text ?? "").join("");
  return { id: String(index), role, content: text, parts: [{ type: "text", text }] };
}

/** Return the text of a stream, of its last step: what was written before a tool call is no answer. */
function streamed(text) {
  let answer = "";
  for (const [, data] of text.matchAll(/^data: ?(.*)$/gm)) {
    if (data.trim() === "[DONE]") continue;
    const part = JSON.parse(data);
    if (part.type === "error") throw new Error(part.errorText);
    if (part.type === "start-step") answer = "";
    if (part.type === "text-delta" || part.type === undefined) answer += part.delta ?? "";
  }
  return answer;
}

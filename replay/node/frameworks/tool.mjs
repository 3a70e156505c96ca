// What the frameworks have in common.

/** Return a copy of a tool with another `execute`; it stays what `instanceof` says. */
export function withExecute(tool, execute) {
  const properties = Object.getOwnPropertyDescriptors(tool);
  const value = { value: execute, writable: true, enumerable: true, configurable: true };
  return Object.create(Object.getPrototypeOf(tool), { ...properties, execute: value });
}

/** Return a recorded answer as a result of the Model Context Protocol. */
export function asResult(recorded) {
  if (Array.isArray(recorded?.content)) return recorded;
  if (Array.isArray(recorded) && recorded.length && recorded.every((block) => typeof block?.type === "string"))
    return { content: recorded };
  const text = typeof recorded === "string" ? recorded : JSON.stringify(recorded);
  const isObject = recorded !== null && typeof recorded === "object" && !Array.isArray(recorded);
  return { content: [{ type: "text", text }], ...(isObject ? { structuredContent: recorded } : {}) };
}

/** Return a recorded error as such a result. */
export function asFailure(error) {
  return { content: [{ type: "text", text: error.message }], isError: true };
}

/** Carries a recorded error to where it becomes a result. */
export class ToolFailed extends Error {}

// Agents that keep each conversation themselves, under the id that they are given.
const SESSIONS = new Map();

export async function reply(sessionId, message) {
  const said = SESSIONS.get(sessionId) ?? [];
  SESSIONS.set(sessionId, [...said, message]);
  return `${SESSIONS.size} session of ${typeof sessionId}: ${SESSIONS.get(sessionId).join(" / ")}`;
}

export const last = async (message, session_id = "everybody") => ({ reply: await reply(session_id, message), history: [] });
export const bare = (thread, text, model) => reply(thread, `${text} to ${model}`);
export const object = async ({ conversationId, prompt }) => reply(conversationId, prompt);
export const beside = (text, { chatId, model }) => reply(chatId, `${text} to ${model}`);
export const withMessages = (threadId, messages) => reply(threadId, messages.at(-1).content);
export const chosen = (sessionId, message) => reply(sessionId, message);
export const nothing = (sessionId, options) => reply(sessionId, options);
export const onlyId = ({ sessionId }) => reply(sessionId, "?");

export class Agent {
  #said = [];

  reply(text) {
    this.#said.push(text);
    return this.#said.join(" / ");
  }
}

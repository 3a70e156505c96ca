export async function runAgent(text) {
  if (text === "exit") process.exit(3);
  if (text === "rejection") {
    Promise.reject(new Error("nobody awaits this"));
    await new Promise((done) => setTimeout(done, 1000));
  }
  if (text === "throw") throw new TypeError("no such order");
  if (text === "busy") for (;;);
  if (text === "hang") await new Promise(() => setInterval(() => {}, 1000));
  if (text === "overloaded") throw Object.assign(new Error("overloaded"), { status: 529, headers: { "retry-after": "7" } });
  if (text === "nothing") return undefined;
  if (text === "cycle") {
    const answer = {};
    answer.answer = answer;
    return answer;
  }
  return text;
}

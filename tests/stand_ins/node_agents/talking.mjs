// The agent of `talking.py`, as an entrypoint of Node.
const STATUSES = { overloaded: 529, limited: 429, refused: 400 };

export async function call(name, args) {
  throw new RangeError("the real tool ran");
}

export async function runAgent(text) {
  const [, word, rest] = /^(\S+) ?(.*)$/.exec(text);
  if (word === "look") return { final_response: await call("get_order_status", { order_id: rest }), cost_usd: 0.5 };
  if (word === "steps") {
    const answers = [];
    for (const step of rest.split(";")) {
      const [name, order_id] = step.split(" ");
      answers.push(await call(name, { order_id }));
    }
    return answers.join(" | ");
  }
  if (word === "careful") {
    try {
      return await call("get_order_status", { order_id: rest });
    } catch (error) {
      return `it said: ${error.message}`;
    }
  }
  if (word === "raise") throw new Error(rest);
  if (word in STATUSES) throw Object.assign(new Error("as the test wants it"), { status: STATUSES[word], headers: { "retry-after": "3" } });
  if (word === "swell") {
    globalThis.swollen = Buffer.alloc(300 * 2 ** 20, 1);
    await new Promise((done) => setTimeout(done, 20_000));
  }
  if (word === "hang") await new Promise((done) => setTimeout(done, 60_000));
  if (word === "die") {
    console.error("last words");
    process.exit(3);
  }
  if (word === "noise") {
    console.log('{"progress": 50}\n'.repeat(5000));
    console.error("and complaints\n".repeat(5000));
  }
  if (word === "nonsense") return 42;
  return { final_response: `you said ${text}`, usage: { input_tokens: 10, output_tokens: 2 } };
}

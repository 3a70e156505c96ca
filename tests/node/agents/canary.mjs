import { appendFileSync } from "node:fs";

/** An effect that nobody may ever see. */
export function real(what) {
  appendFileSync(process.env.CANARY_FILE, `${what}\n`);
  return `real ${what}`;
}

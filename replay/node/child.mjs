// Loaded by `--import` in every thread and Node process that the agent starts. A tool cannot be answered there:
// its call throws, and the tool does not run.

import { Patches } from "./patches.mjs";

if (process.env.REPLAYDIFF_NODE) {
  const { tools, live, folder } = JSON.parse(process.env.REPLAYDIFF_NODE);
  new Patches(tools, live, folder).install();
}

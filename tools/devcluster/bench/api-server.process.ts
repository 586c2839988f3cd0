/** The embedded API server in a process of its own: `api-server.process.ts DIRECTORY [persist]`. Prints one line of JSON when it answers. */
import { startApiServer } from "../src/index.ts";

const [directory = "", persist] = process.argv.slice(2);
const { url, ca, token } = await startApiServer({ directory, persist: persist === "persist" });
process.stdout.write(`${JSON.stringify({ url, ca, token })}\n`);
process.on("message", () => {
  globalThis.gc?.();
  process.send?.({ rss: process.memoryUsage().rss });
});

/** Watches the sessions, and sends the ages of the requested number of changes to its parent. watches.ts runs it. */
import { createInterface } from "node:readline";
import { request } from "undici";

const { BENCH_HTTP_URL: http = "", BENCH_HTTP_TOKEN: bearer = "" } = process.env;
const [count = ""] = process.argv.slice(2);

const { body } = await request(`${http}/v1/sessions?watch=true`, { headers: { authorization: `Bearer ${bearer}` } });
const agesMs: number[] = [];
let isChange = false;
for await (const line of createInterface({ input: body })) {
  if (line.startsWith("event: ")) isChange = line === "event: modified";
  else if (isChange && line.startsWith("data: ")) {
    const { createdAtMs } = JSON.parse(line.slice("data: ".length)) as { readonly createdAtMs: number };
    agesMs.push(Date.now() - createdAtMs);
  }
  if (agesMs.length >= Number(count)) break;
}
process.send?.(agesMs, () => process.kill(process.pid, "SIGTERM"));

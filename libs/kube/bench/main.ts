/** What caches, events and calls of this library cost beside client-node's. Run: node libs/kube/bench/main.ts [memory|events|calls ...] */
import { compareCalls } from "./calls.ts";
import { compareEvents } from "./events.ts";
import { compareMemory } from "./memory.ts";

const parts: Readonly<Record<string, () => Promise<void>>> = {
  memory: compareMemory,
  events: compareEvents,
  calls: compareCalls,
};
const chosen = process.argv.slice(2);
for (const [name, compare] of Object.entries(parts)) {
  if (chosen.length > 0 && !chosen.includes(name)) continue;
  console.log(`== ${name}`);
  await compare();
}

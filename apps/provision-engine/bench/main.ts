/** How fast leases go through an engine, how late they end, and what a start costs when there are many. Run: node apps/provision-engine/bench/main.ts [leases|live] */
import { measureLeases } from "./leases.ts";
import { measureLive } from "./live.ts";

const all = { leases: measureLeases, live: measureLive };
const wanted = process.argv.slice(2);
for (const [name, measure] of Object.entries(all)) if (wanted.length === 0 || wanted.includes(name)) await measure();

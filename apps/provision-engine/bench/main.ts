/** How fast leases go through an engine, how late they end, and what a start costs when there are many. Run: node apps/provision-engine/bench/main.ts [leases|live] */
import { runBenches } from "@muster/testkit";
import { measureLeases } from "./leases.ts";
import { measureLive } from "./live.ts";

await runBenches({ leases: measureLeases, live: measureLive });

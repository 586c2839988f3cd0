/** Measures the throughput of leases, the delay of their ends, and the start with many leases. Run: node apps/provision-engine/bench/main.ts [leases|live] */
import { runBenches } from "@muster/testkit";
import { measureLeases } from "./leases.ts";
import { measureLive } from "./live.ts";

await runBenches({ leases: measureLeases, live: measureLive });

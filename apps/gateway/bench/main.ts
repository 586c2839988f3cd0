/**
 * Measures the costs of the HTTP API: requests beside the same calls over NATS, memory of watches, age of events. Run: node apps/gateway/bench/main.ts
 * [requests|memory|events]
 */
import { runBenches } from "@muster/testkit";
import { compareRequests } from "./requests.ts";
import { measureEvents, measureMemory } from "./watches.ts";

await runBenches({ requests: compareRequests, memory: measureMemory, events: measureEvents });

import { runBenches } from "@muster/testkit";
import { benchDecisions } from "./decisions.ts";
import { benchQueues } from "./queues.ts";
import { benchRecovery } from "./recovery.ts";
import { benchThroughput } from "./throughput.ts";

/** Prints ratios and checks no limit. docs/performance/reservation-manager.md explains them. */
await runBenches({
  throughput: benchThroughput,
  decisions: benchDecisions,
  recovery: benchRecovery,
  queues: benchQueues,
});

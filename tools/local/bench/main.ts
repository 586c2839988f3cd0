/**
 * Measures the overhead of one session, and many concurrent sessions. Run: nx run local:bench, or node tools/local/bench/main.ts [overhead|crowd].
 * docs/PERFORMANCE.md explains the results.
 */
import { runBenches } from "@muster/testkit";
import { crowd } from "./crowd.ts";
import { overhead } from "./overhead.ts";

await runBenches({ overhead, crowd });

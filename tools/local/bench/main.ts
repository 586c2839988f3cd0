/**
 * What a session costs beside what it runs, and many sessions at once. Run: nx run local:bench, or node tools/local/bench/main.ts [overhead|crowd].
 * How to read it: docs/PERFORMANCE.md.
 */
import { runBenches } from "@muster/testkit";
import { crowd } from "./crowd.ts";
import { overhead } from "./overhead.ts";

await runBenches({ overhead, crowd });

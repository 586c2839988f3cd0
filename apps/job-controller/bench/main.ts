/** Measures what gangs cost beside plainly created pods. Run: node apps/job-controller/bench/main.ts */
import { runBenches } from "@muster/testkit";
import { compareCreation } from "./create.ts";

await runBenches({ create: compareCreation });

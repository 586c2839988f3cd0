/** The cost of gangs beside plain pods. Run: node apps/job-controller/bench/main.ts */
import { runBenches } from "@muster/testkit";
import { compareCreation } from "./create.ts";

await runBenches({ create: compareCreation });

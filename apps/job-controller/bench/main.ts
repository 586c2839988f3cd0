/** What gangs cost beside pods that are simply created. Run: node apps/job-controller/bench/main.ts */
import { compareCreation } from "./create.ts";

await compareCreation();

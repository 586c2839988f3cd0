/** Measures how fast the console answers its user with 5,000 machines and 10,000 pieces of work, in Chromium. Run: node apps/console/bench/main.ts */
import { runBenches } from "@muster/testkit";
import { measureInteractions } from "./interactions.ts";

await runBenches({ interactions: measureInteractions });

import { runBenches } from "@muster/testkit";
import { benchDay } from "./day.ts";
import { benchPods } from "./pods.ts";
import { benchSpeed } from "./speed.ts";

/** Prints measurements and never fails. docs/performance/node-scaler.md explains the output. */
await runBenches({ speed: benchSpeed, pods: benchPods, day: benchDay });

import { runBenches } from "@muster/testkit";
import { benchDay } from "./day.ts";
import { benchPods } from "./pods.ts";
import { benchSpeed } from "./speed.ts";

/** Prints; fails nothing. docs/performance/node-scaler.md says how to read what they print. */
await runBenches({ speed: benchSpeed, pods: benchPods, day: benchDay });

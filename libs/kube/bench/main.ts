/** Compares caches, events and calls of this library with client-node's. Run: node libs/kube/bench/main.ts [memory|events|calls ...] */
import { runBenches } from "@muster/testkit";
import { compareCalls } from "./calls.ts";
import { compareEvents } from "./events.ts";
import { compareMemory } from "./memory.ts";

await runBenches({ memory: compareMemory, events: compareEvents, calls: compareCalls });

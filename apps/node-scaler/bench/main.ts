import { benchDay } from "./day.ts";
import { benchPods } from "./pods.ts";
import { benchSpeed } from "./speed.ts";

/** Prints; fails nothing. Without arguments all of them: docs/performance/node-scaler.md says how to read what they print. */
const benches: Readonly<Record<string, () => void>> = { speed: benchSpeed, pods: benchPods, day: benchDay };

const wanted = process.argv.slice(2);
for (const [name, bench] of Object.entries(benches)) if (wanted.length === 0 || wanted.includes(name)) bench();

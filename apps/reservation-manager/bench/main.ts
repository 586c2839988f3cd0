import { benchDecisions } from "./decisions.ts";
import { benchRecovery } from "./recovery.ts";
import { benchThroughput } from "./throughput.ts";

/** Prints; fails nothing. Without arguments all of them: docs/performance/reservation-manager.md says how to read what they print. */
const benches: Readonly<Record<string, () => void | Promise<void>>> = {
  throughput: benchThroughput,
  decisions: benchDecisions,
  recovery: benchRecovery,
};

const wanted = process.argv.slice(2);
for (const [name, bench] of Object.entries(benches)) if (wanted.length === 0 || wanted.includes(name)) await bench();

import { writeFileSync } from "node:fs";
import type { Arguments } from "./arguments.ts";
import { COUNTED, describeFailed, describePassed, toJson } from "./report.ts";
import { runSimulation, type Simulation } from "./simulate.ts";
import { simulateLeases } from "./simulate-leases.ts";
import { simulateQueues } from "./simulate-queues.ts";
import { takeSnapshot, writeSnapshot } from "./system-snapshot.ts";
import type { World } from "./world.ts";
import type { FaultKind } from "./fault-risks.ts";

export type RunContext = {
  readonly signal: AbortSignal;
  readonly output: { write(text: string): unknown };
  readonly terminal: { write(text: string): unknown; readonly isTTY?: boolean };
};

const HOUR_MS = 3_600_000;

/** Runs the seeds one after another until one fails. Returns the exit code. */
export async function runSeeds(options: Arguments, { signal, output, terminal }: RunContext): Promise<number> {
  const { seed: first, seeds, trace } = options;
  const sum = { kind: decideKind(options), seeds: 0, count: 0, lifeMs: 0, faults: new Map<FaultKind, number>() };
  const beganMs = performance.now();
  const { snapshot } = options;
  const inspectAt = snapshot && {
    inspectAt: { ms: snapshot.atMs, inspect: (world: World) => writeSnapshot(snapshot.file, takeSnapshot(world)) },
  };
  const print = (text: string): void => void output.write(`${text}\n`);
  const runSeed = (seed: number): Promise<Simulation> => {
    const { sessions, parts, leases, queues } = options;
    if (leases !== undefined) return simulateLeases({ seed, leases, signal });
    if (queues !== undefined) return simulateQueues({ seed, queues, signal });
    return runSimulation({ seed, sessions, parts, signal, ...inspectAt });
  };
  for (let seed = first; seed < first + seeds; seed += 1) {
    const simulation = await runSeed(seed);
    if (signal.aborted) return 130;
    if (trace !== undefined) writeFileSync(trace, `${simulation.trace.lines.join("\n")}\n`);
    if (options.output === "json") print(JSON.stringify(toJson(simulation)));
    if (simulation.violations.length > 0) {
      if (options.output === "text") print(describeFailed(simulation));
      return 1;
    }
    add(sum, simulation);
    if (options.output === "text" && seeds === 1) print(describePassed(simulation));
    if (terminal.isTTY === true && seeds > 1) terminal.write(`\r${sum.seeds} of ${seeds} seeds hold `);
  }
  if (options.output === "json") return 0;
  if (terminal.isTTY === true && seeds > 1) terminal.write("\r\u001b[K");
  const seconds = ((performance.now() - beganMs) / 1000).toFixed(1);
  const hours = (sum.lifeMs / HOUR_MS).toFixed(1);
  print(
    `${sum.seeds} seeds from ${first}: ${sum.count} ${COUNTED[sum.kind]} of ${hours} h in total; all rules hold; ${seconds} s`,
  );
  print(
    `faults: ${[...sum.faults]
      .sort()
      .map(([kind, count]) => `${kind} ${count}`)
      .join(", ")}`,
  );
  return 0;
}

function decideKind({ leases, queues }: Arguments): Simulation["kind"] {
  if (leases !== undefined) return "leases";
  return queues === undefined ? "sessions" : "queues";
}

function add(
  sum: { seeds: number; count: number; lifeMs: number; readonly faults: Map<FaultKind, number> },
  { count, lifeMs, faults }: Simulation,
): void {
  sum.seeds += 1;
  sum.count += count;
  sum.lifeMs += lifeMs;
  for (const [kind, count] of faults) sum.faults.set(kind, (sum.faults.get(kind) ?? 0) + count);
}

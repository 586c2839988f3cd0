import fc from "fast-check";
import { NaivePreemption } from "./naive-preempting-ledger.ts";
import { changingRuns, machineRuns, operationOf, quotaRuns } from "./random-preemption.ts";
import { startRun } from "./random-world.ts";
import { sayEvents, sayNaive, stepReal } from "./preemption-driver.ts";
const which = { quota: quotaRuns, changing: changingRuns, machine: machineRuns }[process.argv[2] ?? "quota"] ?? quotaRuns;
const numRuns = Number(process.argv[3] ?? 50);
const lines: string[] = [];
function play({ nodes, queues, drafts }: any, log: (line: string) => void): boolean {
  const run = startRun(nodes);
  const naive = new NaivePreemption(nodes);
  const all = [...queues.map((queue: any) => ({ kind: "put", queue })), ...drafts];
  for (const [index, draft] of all.entries()) {
    const operation: any = operationOf(draft, naive.world, index);
    if (operation === undefined) continue;
    const before = run.events.length;
    stepReal(run, operation);
    const { events } = naive.step(operation);
    const [real, expected] = [sayEvents(run.events.slice(before)), sayNaive(events)].map((each) => [...each].sort());
    const show = operation.kind === "put" ? JSON.stringify({ ...operation.queue, quotas: [...operation.queue.quotas] }) : operation.kind === "reserve" ? `${operation.queue} ${operation.needs.map((n: any) => n.shared ? JSON.stringify([...n.shared]) : "whole").join("+")} p${operation.priority} ${operation.notPreemptible ? "np" : ""} ${run.world.ledger.nextSequence - 1}` : JSON.stringify(operation.owner ?? operation.ms ?? operation.node ?? operation.facts?.name);
    log(`${operation.kind} ${show} => ${JSON.stringify(real)}`);
    if (JSON.stringify(real) !== JSON.stringify(expected)) { log(`   EXPECTED ${JSON.stringify(expected)}`); return false; }
  }
  return true;
}
const out = fc.check(fc.property(which as any, (run: any) => play(run, () => undefined)), { numRuns, ...(process.argv[4] ? { seed: Number(process.argv[4]) } : {}), interruptAfterTimeLimit: 60_000 });
if (out.failed && out.counterexample) { console.log("seed", out.seed, "runs", out.numRuns); play(out.counterexample[0], (line) => console.log(line)); if (out.errorInstance) console.log(out.errorInstance); } else console.log("ok", out.numRuns, "runs", out.seed);

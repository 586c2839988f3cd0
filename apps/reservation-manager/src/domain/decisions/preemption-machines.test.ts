import fc from "fast-check";
import { expect, it } from "vitest";
import { naiveWorldOf } from "../../../test/naive-world.ts";
import { stepReal } from "../../../test/preemption-driver.ts";
import { followBeneficiaries, PREEMPTION_PROPERTIES, type Decision } from "../../../test/preemption-rules.ts";
import {
  machineRuns,
  buildOperation,
  type PreemptionDraft,
  type PreemptionRun,
} from "../../../test/random-preemption.ts";
import { startRun } from "../../../test/random-world.ts";
import { evolveLedger, type Ledger } from "../ledger/ledger.ts";

/** Number of random worlds. If unset, every run tests the same worlds. */
const WORLDS = process.env["MUSTER_PREEMPTION_WORLDS"];

/** Runs the ledger without the reference, which may place work differently when machines are scarce. */
function play({ nodes, queues, drafts }: PreemptionRun): void {
  const run = startRun(nodes);
  const rules = [
    { rule: "grants exceed no node", findBroken: findExceeded },
    ...PREEMPTION_PROPERTIES,
    followBeneficiaries(),
  ];
  const all: readonly PreemptionDraft[] = [...queues.map((queue) => ({ kind: "put", queue }) as const), ...drafts];
  for (const [index, draft] of all.entries()) {
    const before = run.world.ledger;
    const known = { ledger: before, nodes: [...run.nodes.values()], nowMs: run.nowMs };
    const operation = buildOperation(draft, naiveWorldOf(known), index);
    if (operation === undefined) continue;
    const count = run.events.length;
    stepReal(run, operation);
    const events = run.events.slice(count);
    const decision = { before, events, nodes: [...run.nodes.values()], areAllKnown: true, nowMs: run.nowMs };
    const broken = rules.flatMap(({ rule, findBroken }) => {
      const found = findBroken(decision);
      return found === undefined ? [] : [`${rule}: ${found}`];
    });
    expect({ operation, broken }).toEqual({ operation, broken: [] });
  }
}

/** Finds a node that a grant overcommits, or grants as a whole beside other work. */
function findExceeded({ before, events, nodes }: Decision): string | undefined {
  let ledger = before;
  for (const event of events) {
    ledger = evolveLedger(ledger, event);
    if (event.kind !== "granted") continue;
    const exceeded = event.machines.find(({ node }) => isExceeded(ledger, node, nodes));
    if (exceeded !== undefined) return `r-${event.sequence} on ${exceeded.node}`;
  }
  return undefined;
}

function isExceeded({ holders, parts }: Ledger, node: string, nodes: Decision["nodes"]): boolean {
  const { allocatable } = nodes.find(({ name }) => name === node) ?? {};
  const held = parts.get(node) ?? [];
  if (holders.get(node) !== undefined) return held.length > 0;
  return [...(allocatable ?? [])].some(([resource, amount]) => {
    const used = held.map(({ requests }) => (resource === "pods" ? 1 : (requests.get(resource) ?? 0)));
    return used.reduce((sum, each) => sum + each, 0) > amount;
  });
}

it("obeys the rules of preemption where machines are scarce", () => {
  fc.assert(
    fc.property(machineRuns, play),
    WORLDS === undefined ? { numRuns: 80, seed: 1 } : { numRuns: Number(WORLDS) },
  );
}, 120_000);

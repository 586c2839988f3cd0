import fc from "fast-check";
import { expect, it } from "vitest";
import { askForCpu, startWithQueues } from "../../../test/queue-run.ts";
import { rivals } from "../../../test/random-queues.ts";
import { makeNode, makeOwner, policy, stepRun, toAmounts, type LedgerRun } from "../../../test/random-world.ts";
import { findReservation } from "../ledger/ledger.ts";
import type { NodeFacts } from "../ledger/machines.ts";
import type { Queue } from "../ledger/queue.ts";

const CPU = "a cpu";
const OURS = "ours";
const PLENTY = [makeNode("n0", "a", { allocatable: toAmounts({ cpu: 1000, pods: 1000 }) })];
/** Cpu of each machine, more than any request needs. The machines together hold all quotas. */
const SCARCE_CPU = 4;
/** Number of worlds; MUSTER_QUEUE_WORLDS replaces it. */
const RUNS = Number(process.env["MUSTER_QUEUE_WORLDS"] ?? 150);
/** Maximum rounds. Each round ends the oldest work. The queues together own less than this. */
const ROUNDS = 80;
/** Minimum quota of every leaf. */
const MIN_NOMINAL = 3;

/** One request in another queue: `queue` is an index of leaves. */
const submission = fc.record({
  queue: fc.nat(),
  cpu: fc.constantFrom(1, 1, 1, 2),
  priority: fc.constantFrom(-1, 0, 1, 9),
});
type Submission = { readonly queue: number; readonly cpu: number; readonly priority: number };

const worlds = fc.record({
  queues: rivals.filter((queues) => leavesOf(queues).length > 1),
  leaf: fc.nat(),
  cpu: fc.integer({ min: 2, max: MIN_NOMINAL }),
  /** Requests in other queues before ours. */
  before: fc.array(submission, { minLength: 10, maxLength: 30 }),
  /** Requests after ours, two in each round. */
  later: fc.array(submission, { minLength: 1, maxLength: 8 }),
});

function leavesOf(queues: readonly Queue[]): readonly Queue[] {
  return queues.filter(({ name }) => queues.every(({ parent }) => parent !== name));
}

/** Ends the work that was granted first, except ours. */
function endOldest(run: LedgerRun): void {
  const work = [...run.world.ledger.reservations.values()].filter(({ owner }) => owner.id !== makeOwner(OURS).id);
  const granted = work.flatMap(({ owner, grant }) => (grant === undefined ? [] : [{ owner, grant }]));
  const [oldest] = granted.sort((one, other) => one.grant.atMs - other.grant.atMs);
  if (oldest !== undefined) stepRun(run, { kind: "release", owner: oldest.owner });
}

type StarvationWorld = typeof worlds extends fc.Arbitrary<infer Drawn> ? Drawn : never;

/** Counts the rounds until our request is granted; undefined: it is not. */
function countRounds(
  { queues, leaf, cpu, before, later }: StarvationWorld,
  nodes: readonly NodeFacts[],
): number | undefined {
  const run = startWithQueues(nodes, queues);
  const leaves = leavesOf(queues);
  const ours = leaves[leaf % leaves.length];
  if (ours === undefined) throw new Error("a forest without a leaf");
  let count = 0;
  const submit = (submitted: Submission): void => {
    const queue = leaves[submitted.queue % leaves.length];
    const isOurs = queue === ours;
    const nominal = ours.quotas.get(CPU)?.nominal ?? 0;
    askForCpu(run, `other${count++}`, isOurs ? Math.min(submitted.cpu, nominal) : submitted.cpu, {
      ...(queue && { queue: queue.name }),
      // In our queue, a request of higher priority would go first.
      priority: isOurs ? Math.min(0, submitted.priority) : submitted.priority,
    });
  };
  const others = leaves.map((_, index) => index).filter((index) => leaves[index] !== ours);
  for (const each of before) submit({ ...each, queue: others[each.queue % others.length] ?? 0 });
  askForCpu(run, OURS, cpu, { queue: ours.name });
  for (let round = 0; round < ROUNDS; round += 1) {
    if (findReservation(run.world.ledger, makeOwner(OURS, "job"))?.grant !== undefined) return round;
    stepRun(run, { kind: "wait", ms: policy.holdAfterMs / 3 });
    for (const index of [2 * round, 2 * round + 1]) {
      const next = later[index % later.length];
      if (next !== undefined) submit(next);
    }
    endOldest(run);
  }
  return undefined;
}

function makeScarceNodes(queues: readonly Queue[]): readonly NodeFacts[] {
  const total = queues.reduce((sum, { quotas }) => sum + (quotas.get(CPU)?.nominal ?? 0), 0);
  return Array.from({ length: Math.ceil(total / SCARCE_CPU) }, (_, index) =>
    makeNode(`n${index}`, "a", { allocatable: toAmounts({ cpu: SCARCE_CPU, pods: 10 }) }),
  );
}

it.each([
  ["plentiful", (): readonly NodeFacts[] => PLENTY],
  ["scarce", makeScarceNodes],
])(
  "starts a request inside its nominal quota eventually with %s machines, whatever others submit, if work ends",
  (_which, nodesFor) => {
    fc.assert(
      fc.property(worlds, (world) => {
        expect(countRounds(world, nodesFor(world.queues))).toBeDefined();
      }),
      { numRuns: RUNS },
    );
  },
);

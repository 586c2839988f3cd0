import { BATCH_JOB, JOB_SET, QUEUED_POD, type BatchKind } from "@muster/names";
import fc from "fast-check";
import { expect, it } from "vitest";
import { PlannedBatchWorld } from "../../../test/planned-batch-world.ts";

const EVENTS = [
  "control",
  "control",
  "grant",
  "grant",
  "schedule",
  "schedule",
  "succeed",
  "fail",
  "lose",
  "lose",
  "return",
  "preempt",
  "ready",
  "ready",
  "unready",
  "wait",
];
const action = (events: readonly string[]) =>
  fc.record({ event: fc.constantFrom(...events), pick: fc.nat(9), steps: fc.nat(3) });
const RUNS = { numRuns: 300 };
/** Enough rounds for each pod to be created, placed, scheduled and ended. */
const MAX_ROUNDS = 400;

/** Ends all losses, and lets each process do its work. */
function settle(world: PlannedBatchWorld, isDone: () => boolean): void {
  world.happen("return", 0);
  for (let round = 0; round < MAX_ROUNDS && !isDone(); round += 1) {
    world.pass(Infinity);
    for (const event of ["control", "grant"]) world.happen(event, 0);
    for (const event of ["schedule", "ready"]) for (const pick of [0, 1, 2, 3]) world.happen(event, pick);
    if (round % 8 === 7) world.happen("succeed", (round - 7) / 8);
  }
}

const completions = fc.integer({ min: 1, max: 5 });
/** Exceeds the time of a round of `settle`, so that work which starts without disturbance is ready in time. */
const READY_TIMEOUT_MS = 200;
const readyTimeoutMs = fc.constantFrom(undefined, READY_TIMEOUT_MS);
const job = fc.tuple(completions, readyTimeoutMs).map(
  ([of, limitMs]) =>
    () =>
      new PlannedBatchWorld(BATCH_JOB, [{ name: "pod", completions: of }], limitMs),
);
const jobSet = fc.tuple(completions, completions, readyTimeoutMs).map(([of, other, limitMs]) => () => {
  const rows = [
    { name: "leader", completions: of },
    { name: "worker", completions: other },
  ];
  return new PlannedBatchWorld(JOB_SET, rows, limitMs);
});
const pod = readyTimeoutMs.map(
  (limitMs) => () => new PlannedBatchWorld(QUEUED_POD, [{ name: "pod", completions: 1 }], limitMs),
);

it.each([
  ["a batch Job", job],
  ["a JobSet", jobSet],
  ["a pod", pod],
])("runs %s to its end and leaves no machine, whatever happens and wherever the controller dies", (_title, worlds) => {
  fc.assert(
    fc.property(worlds, fc.array(action(EVENTS), { maxLength: 80 }), (create, actions) => {
      const world = create();
      for (const { event, pick, steps } of actions) {
        world.happen(event, pick);
        world.pass(steps);
      }
      settle(world, () => world.isFinished && world.isEmpty);
      expect({ isFinished: world.isFinished, isEmpty: world.isEmpty }).toEqual({ isFinished: true, isEmpty: true });
      expect(world.pass(0)).toBe(0);
    }),
    RUNS,
  );
});

it.each([
  ["a batch Job", job],
  ["a JobSet", jobSet],
])("keeps no machine for %s that has left its queue, and lets each of its pods start", (_title, worlds) => {
  fc.assert(
    fc.property(worlds, fc.array(action(EVENTS), { maxLength: 60 }), (create, actions) => {
      const world = create();
      for (const { event, pick, steps } of actions) {
        world.happen(event, pick);
        world.pass(steps);
      }
      world.happen("unlabel", 0);
      settle(world, () => false);
      expect(world.isEmpty).toBe(true);
      const { job, pods } = world.snapshot();
      expect(pods.filter(({ gated }) => gated)).toEqual([]);
      expect(job.suspended && job.gated).toBe(false);
      expect(world.pass(0)).toBe(0);
    }),
    RUNS,
  );
});

it.each<[string, BatchKind]>([
  ["a batch Job", BATCH_JOB],
  ["a JobSet", JOB_SET],
])(
  "requeues %s that does not become ready, counts each timeout once, and runs it once it starts in time",
  (_title, kind) => {
    fc.assert(
      fc.property(fc.array(fc.nat(3), { minLength: 150, maxLength: 150 }), (counts) => {
        const world = new PlannedBatchWorld(kind, [{ name: "pod", completions: 2 }], READY_TIMEOUT_MS);
        for (const count of counts) {
          world.pass(count);
          for (const event of ["control", "grant"]) world.happen(event, 0);
          for (const pick of [0, 1]) world.happen("schedule", pick);
        }
        expect(world.timeouts).toBeGreaterThan(1);
        expect(world.snapshot().job.start.readyTimeouts).toBe(world.timeouts);
        settle(world, () => world.isFinished && world.isEmpty);
        expect(world.isFinished && world.isEmpty).toBe(true);
        expect(world.snapshot().job.start.readyTimeouts).toBe(0);
      }),
      { numRuns: 50 },
    );
  },
);

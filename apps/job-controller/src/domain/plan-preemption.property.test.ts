import fc from "fast-check";
import { expect, it } from "vitest";
import { applyEvent, makeWorld, runPass, type WorldEvent, type World } from "../../test/planned-world.ts";
import { makeReplica, makeSpec } from "../../test/samples.ts";
import { countRestarts } from "./decide-outcome.ts";
import { isFinished, isTrue } from "./job-status.ts";

const SPEC = makeSpec({
  replicas: [makeReplica("chief", 1), makeReplica("worker", 2, { restartPolicy: "ExitCode" })],
  group: { scheduler: "gangs", settings: {} },
  backoffLimit: 2,
  exitCodes: { retryable: [1, 2, 3], permanent: [] },
  success: [
    [
      { type: "chief", indexes: "all" },
      { type: "worker", indexes: "all" },
    ],
  ],
});
const MEMBERS = ["chief-0", "worker-0", "worker-1"];

/** The events of one member in one turn. */
const turn = fc.record({
  member: fc.constantFrom(...MEMBERS),
  end: fc.constantFrom("pod-fails" as const, "pod-evicted" as const, "pod-succeeds" as const, undefined),
});

const deadline = fc.record({
  before: fc.nat(8),
  deadlineMs: fc.constantFrom(0, 30_000),
  /** The steps after which the controller dies, pass by pass. */
  dies: fc.array(fc.nat(3), { maxLength: 6 }),
  /** Whether the pods end by themselves, or only by force. */
  ends: fc.boolean(),
  /** Pods that stop because of the announcement, before they are deleted. */
  exits: fc.array(fc.record({ which: fc.nat(2), kind: fc.constantFrom("pod-fails", "pod-succeeds") }), {
    maxLength: 2,
  }),
});

function all(world: World, kind: "pod-binds" | "pod-runs" | "pod-goes"): void {
  for (let which = world.pods.length - 1; which >= 0; which -= 1) applyEvent(world, { kind, which });
}

/** Runs every pod that may run, after all pauses. */
function settle(world: World): void {
  for (let round = 0; round < 4; round += 1) {
    applyEvent(world, { kind: "grant" });
    applyEvent(world, { kind: "time", ms: 360_000 });
    runPass(world);
    all(world, "pod-goes");
    all(world, "pod-binds");
    all(world, "pod-runs");
  }
  runPass(world);
  if (!isFinished(world.status)) expect(isTrue(world.status, "Running")).toBe(true);
}

function play(world: World, { member, end }: { member: string; end: WorldEvent["kind"] | undefined }): void {
  const which = world.pods.findIndex(({ component, phase }) => component === member && phase === "Running");
  if (end !== undefined && which >= 0) applyEvent(world, { kind: end as "pod-fails", which });
  settle(world);
}

type Preemption = typeof deadline extends fc.Arbitrary<infer Value> ? Value : never;

/** Ends programs because of the announcement: the controller has died between the announcement to these pods and their deletion. */
function exit(world: World, exits: Preemption["exits"]): void {
  const { failures } = world;
  for (const { which, kind } of exits) {
    world.pods = world.pods.map((pod, at) =>
      at === which && pod.phase === "Running" ? { ...pod, preempted: true } : pod,
    );
    if (world.pods[which]?.preempted === true) applyEvent(world, { kind: kind as "pod-fails", which });
  }
  world.failures = failures;
}

/** Simulates a preemption from its announcement until the job has its machines again, and its pods run. */
function preempt(world: World, { deadlineMs, dies, ends, exits }: Preemption): void {
  applyEvent(world, { kind: "preempt", which: 0, deadlineMs });
  runPass(world);
  exit(world, exits);
  for (const after of dies) applyEvent(world, { kind: "crash-in-steps", after });
  for (let round = 0; round < 5; round += 1) {
    runPass(world);
    if (ends) all(world, "pod-goes");
    applyEvent(world, { kind: "time", ms: 30_000 });
  }
  all(world, "pod-goes");
  runPass(world);
  if (!isFinished(world.status)) {
    expect([...world.units.values()].map(({ state }) => state)).toEqual(["waiting"]);
    expect(isTrue(world.status, "Preempted")).toBe(true);
  }
  settle(world);
}

function countsOf({ status }: World) {
  const { attempt, attemptsCounted, replicas } = status;
  const rows = replicas.map(({ restarts, completedIndexes, uncounted }) => ({
    restarts,
    completedIndexes,
    rows: uncounted.map(({ index, times, because }) => ({ index, times, because })),
  }));
  return { attempt, attemptsCounted, rows, restarts: countRestarts(status) };
}

it("a job that is preempted at any point of its life and granted again counts and ends as without the preemption", () => {
  fc.assert(
    fc.property(fc.array(turn, { minLength: 1, maxLength: 8 }), deadline, (turns, preemption) => {
      // Long runs end the series of uncounted restarts in either world.
      const policy = { ...makeWorld({ of: SPEC, maxMachines: Infinity }).policy, calmAfterMs: Infinity };
      const [undisturbed, disturbed] = [0, 1].map(() => makeWorld({ of: SPEC, maxMachines: Infinity }, policy));
      if (undisturbed === undefined || disturbed === undefined) throw new Error("two worlds");
      settle(undisturbed);
      settle(disturbed);
      turns.forEach((each, at) => {
        if (at === preemption.before % turns.length) {
          const before = countsOf(disturbed);
          preempt(disturbed, preemption);
          expect(countsOf(disturbed)).toEqual(before);
        }
        play(undisturbed, each);
        play(disturbed, each);
        expect(countsOf(disturbed)).toEqual(countsOf(undisturbed));
      });
      const outcome = ({ status }: World) => [isTrue(status, "Succeeded"), isTrue(status, "Failed")];
      expect(outcome(disturbed)).toEqual(outcome(undisturbed));
    }),
    { numRuns: 100 },
  );
});

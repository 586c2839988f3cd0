import fc from "fast-check";
import { expect, it } from "vitest";
import {
  calmDown,
  applyEvent,
  makeWorld,
  observeWorld,
  runPass,
  type WorldSetup,
  type WorldEvent,
} from "../../test/planned-world.ts";
import { POLICY, makeReplica, makeSpec } from "../../test/samples.ts";
import { countGang } from "./build-units.ts";
import { countRestarts } from "./decide-outcome.ts";
import type { JobSpec } from "./job.ts";
import { canRun } from "./job-pods.ts";
import { isTrue } from "./job-status.ts";
import { planJob } from "./plan-job.ts";
import type { JobStep } from "./plan-steps.ts";
import type { QueueChoice } from "@muster/ledger-client/choose-queue";

const BACKOFF_LIMIT = 3;

const which = fc.nat(3);
const happening: fc.Arbitrary<WorldEvent> = fc.oneof(
  { weight: 8, arbitrary: fc.constant({ kind: "pass" as const }) },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant("pod-binds" as const), which }) },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant("pod-runs" as const), which }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("pod-succeeds" as const), which }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("pod-fails" as const), which }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("pod-goes" as const), which }) },
  { weight: 4, arbitrary: fc.constant({ kind: "grant" as const }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("time" as const), ms: fc.integer({ min: 1, max: 700_000 }) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("crash-in-steps" as const), after: fc.nat(4) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom("pod-evicted" as const, "pod-deleted" as const), which }) },
  {
    weight: 2,
    arbitrary: fc.constantFrom<WorldEvent>(
      { kind: "machine-lost" },
      { kind: "machine-cordoned" },
      { kind: "uncordon" },
      { kind: "suspend" },
      { kind: "resume" },
      { kind: "withdraw" },
    ),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("preempt" as const),
      which,
      deadlineMs: fc.integer({ min: 0, max: 90_000 }),
    }),
  },
);

const requests = fc.constantFrom({}, { cpu: 300 }, { cpu: 500 }, { cpu: 800 }, undefined);
const choice = fc.constantFrom<QueueChoice>(
  { kind: "none" },
  { kind: "queue", name: "a" },
  { kind: "queue", name: "b" },
  { kind: "unknown", message: "no queue serves it" },
  { kind: "unlisted" },
);
/** Generates events that also edit the job or a template, and create and delete queues. */
const sharing: fc.Arbitrary<WorldEvent> = fc.oneof(
  { weight: 20, arbitrary: happening },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("queue" as const), choice }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("ready-timeout" as const),
      ms: fc.constantFrom(undefined, 1000, 60_000, 600_000),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("share" as const), type: fc.nat(1), requests }) },
);

const SPEC = makeSpec({
  replicas: [makeReplica("chief", 1), makeReplica("worker", 3, { dependsOn: [{ type: "chief", status: "Ready" }] })],
  group: { scheduler: "gangs", settings: {} },
  backoffLimit: BACKOFF_LIMIT,
  failurePolicy: [
    { action: "RestartJob", replicaTypes: ["chief"], on: { exitCodes: "In", values: [3], container: undefined } },
  ],
  success: [
    [
      { type: "chief", indexes: "all" },
      { type: "worker", indexes: "all" },
    ],
  ],
});

const AT_ONCE = { ...SPEC, replicas: SPEC.replicas.map((each) => ({ ...each, dependsOn: [] })) };

const worker = makeReplica("worker", 4, { elastic: { minReplicas: 2, maxReplicas: 8 } });
const elastic = (status: "Ready" | "Complete"): JobSpec =>
  makeSpec({
    replicas: [worker, makeReplica("driver", 1, { dependsOn: [{ type: "worker", status }] })],
    group: { scheduler: "gangs", settings: {} },
    backoffLimit: BACKOFF_LIMIT,
    success: [
      [
        { type: "worker", indexes: "all" },
        { type: "driver", indexes: "all" },
      ],
    ],
  });

const anySpec: fc.Arbitrary<WorldSetup> = fc.oneof(
  fc.record({ of: fc.constantFrom(SPEC, AT_ONCE), maxMachines: fc.constant(Infinity) }),
  fc.record({
    of: fc.constantFrom(elastic("Ready"), elastic("Complete")),
    maxMachines: fc.integer({ min: 3, max: 5 }),
  }),
);

/** Generates specs of these jobs, with members that share machines. */
const sharedSpec: fc.Arbitrary<WorldSetup> = fc
  .record({ given: anySpec, shares: fc.tuple(requests, requests) })
  .map(({ given: { of, maxMachines }, shares }) => {
    const replicas = of.replicas.map((each, place) => ({ ...each, shared: shares[place] }));
    return { of: { ...of, replicas }, maxMachines };
  });

/** Generates long sequences, because most faults need several events. */
const events = (length: number, each = happening): fc.Arbitrary<WorldEvent[]> =>
  fc.array(each, { minLength: length / 2, maxLength: length, size: "max" });

it.each([
  ["whose members have whole machines", anySpec, happening],
  ["whose members share machines, as they are asked to from time to time", sharedSpec, sharing],
])(
  "ends a job once, with nothing left, whatever happens to it and wherever its controller dies: %s",
  (_title, jobs, each) => {
    fc.assert(
      fc.property(jobs, events(120, each), (given, happenings) => {
        const world = makeWorld(given);
        for (const event of happenings) applyEvent(world, event);
        expect(calmDown(world), "the job does not end").toBe(true);
        expect([...world.units.keys()], "machines left").toEqual([]);
        expect(world.pods.filter(canRun), "pods left").toEqual([]);
        expect(world.budget, "a budget left").toBeUndefined();
        expect(world.group, "a group left").toBeUndefined();
        if (isTrue(world.status, "Succeeded")) {
          for (const [place, needed] of world.spec.replicas.entries()) {
            const indexes = Array.from({ length: countGang(needed) }, (_, index) => index);
            expect(world.status.replicas[place]?.completedIndexes).toEqual(expect.arrayContaining(indexes));
          }
          expect(countRestarts(world.status)).toBeLessThanOrEqual(BACKOFF_LIMIT);
        }
      }),
      { numRuns: 500 },
    );
  },
);

it.each([
  ["of whole machines", anySpec, happening],
  ["of parts of machines", sharedSpec, sharing],
])("plans nothing in a world %s after its plan was carried out, until the next event", (_title, jobs, each) => {
  fc.assert(
    fc.property(jobs, events(60, each), (given, happenings) => {
      const world = makeWorld(given);
      for (const event of happenings) applyEvent(world, event);
      // The next pass receives the answers of the ledger to a step; a gang that releases all its machines takes four passes.
      for (let round = 0; round < 6; round += 1) runPass(world);
      const status = world.status;
      expect(runPass(world)).toEqual([]);
      expect(world.status).toEqual(status);
    }),
    { numRuns: 300 },
  );
});

it("plans the same for the same world, in whatever order it is listed", () => {
  fc.assert(
    fc.property(fc.oneof(anySpec, sharedSpec), events(60, sharing), (given, happenings) => {
      const world = makeWorld(given);
      for (const event of happenings) applyEvent(world, event);
      const snapshot = observeWorld(world);
      const turned = { ...snapshot, units: snapshot.units.toReversed(), nodesLost: snapshot.nodesLost.toReversed() };
      const byKind = (steps: readonly JobStep[]) => steps.map((step) => JSON.stringify(step)).sort();
      expect(byKind(planJob(turned, POLICY).steps)).toEqual(byKind(planJob(snapshot, POLICY).steps));
      expect(planJob(turned, POLICY).status).toEqual(planJob(snapshot, POLICY).status);
    }),
  );
});

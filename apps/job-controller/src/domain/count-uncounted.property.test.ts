import fc from "fast-check";
import { expect, it } from "vitest";
import { applyEvent, makeWorld, runPass, type WorldEvent, type World } from "../../test/planned-world.ts";
import { POLICY, makeReplica, makeSpec } from "../../test/samples.ts";
import { computeRestartPauseMs } from "./decide-restart.ts";
import { findCondition, isFinished } from "./job-status.ts";
import type { PodFact } from "./snapshot.ts";

const MOST = 3;
const SPEC = makeSpec({
  replicas: [makeReplica("worker", 2, { restartPolicy: "Never" })],
  group: { scheduler: "gangs", settings: {} },
  backoffLimit: 0,
  failurePolicy: [
    { action: "Ignore", replicaTypes: [], on: { exitCodes: "NotIn", values: [255], container: undefined } },
  ],
});

/** Excludes manual deletions, so that no pod disappears before the controller has observed it. */
const which: fc.Arbitrary<number> = fc.nat(1);
const happening: fc.Arbitrary<WorldEvent> = fc.oneof(
  { weight: 6, arbitrary: fc.constant({ kind: "pass" as const }) },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant("pod-binds" as const), which }) },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant("pod-runs" as const), which }) },
  { weight: 5, arbitrary: fc.record({ kind: fc.constantFrom("pod-fails" as const, "pod-evicted" as const), which }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("pod-succeeds" as const), which }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("pod-goes" as const), which }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("time" as const), ms: fc.integer({ min: 1, max: 400_000 }) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("crash-in-steps" as const), after: fc.nat(2) }) },
);

/** A pod that is created, runs, and is recreated: random events rarely repeat this for one member. */
const life: fc.Arbitrary<WorldEvent[]> = fc
  .record({ which, ms: fc.integer({ min: 0, max: 700_000 }), end: fc.constantFrom("pod-fails", "pod-evicted") })
  .map(({ which: member, ms, end }) => [
    { kind: "pod-binds", which: member },
    { kind: "pod-runs", which: member },
    { kind: "time", ms },
    { kind: end, which: member },
    { kind: "pass" },
    { kind: "time", ms: POLICY.maxRestartBackoffMs },
    { kind: "pass" },
    { kind: "pod-goes", which: member },
    { kind: "pass" },
  ]);
const history = fc
  .array(fc.oneof({ weight: 1, arbitrary: life }, { weight: 4, arbitrary: happening.map((each) => [each]) }), {
    minLength: 20,
    maxLength: 50,
    size: "max",
  })
  .map((parts) => parts.flat());

/** The count of an observer that receives all events. */
type Row = { times: number; lastEndMs: number; uid: string; done: boolean };

it("counts each restart in a row exactly once, never shortens the pause, and fails the job beyond the limit", () => {
  const policy = { ...POLICY, maxUncountedRestarts: MOST };
  let ended = 0;
  fc.assert(
    fc.property(history, (happenings) => {
      const world = makeWorld({ of: SPEC, maxMachines: Infinity }, policy);
      const rows = new Map<string, Row>();
      const seenPods = new Map<string, string>();
      for (const event of happenings) {
        applyEvent(world, event);
        note(world, rows);
        runPass(world);
        for (const each of world.pods) checkPause(world, each, { rows, seenPods });
        if (isFinished(world.status)) break;
        checkCounts(world, rows);
      }
      if (!isFinished(world.status)) return;
      const failed = findCondition(world.status, "Failed");
      const longest = Math.max(...[...rows.values()].map(({ times }) => times));
      expect(failed?.reason).toBe(longest > MOST ? "UncountedRestartsExceeded" : undefined);
      if (failed !== undefined) ended += 1;
    }),
    { numRuns: 150 },
  );
  expect(ended, "runs in which a row was too long").toBeGreaterThan(0);
});

function note(world: World, rows: Map<string, Row>): void {
  for (const { component, uid, phase, startedMs, finishedMs } of world.pods) {
    const row = rows.get(component) ?? { times: 0, lastEndMs: -Infinity, uid: "", done: false };
    rows.set(component, row);
    const untilMs = finishedMs ?? world.nowMs;
    const wasCalm = startedMs !== undefined && untilMs - startedMs >= POLICY.calmAfterMs;
    if (phase === "Succeeded") row.done = true;
    if (wasCalm && uid !== row.uid) row.times = 0;
    if (phase === "Failed" && uid !== row.uid) {
      row.times += 1;
      row.uid = uid;
      row.lastEndMs = untilMs;
    }
  }
}

function checkCounts(world: World, rows: ReadonlyMap<string, Row>): void {
  const stored = new Map(world.status.replicas[0]?.uncounted.map(({ index, times }) => [`worker-${index}`, times]));
  for (const [component, { times, done }] of rows) expect(stored.get(component) ?? 0).toBe(done ? 0 : times);
}

type Seen = { readonly rows: ReadonlyMap<string, Row>; readonly seenPods: Map<string, string> };

/** Checks that a replaced pod starts after the pause of the current series. */
function checkPause(world: World, { component, uid }: PodFact, { rows, seenPods }: Seen): void {
  if (seenPods.get(component) === uid) return;
  seenPods.set(component, uid);
  const row = rows.get(component);
  if (row === undefined || row.times === 0) return;
  expect(world.nowMs - row.lastEndMs).toBeGreaterThanOrEqual(computeRestartPauseMs(row.times, POLICY));
}

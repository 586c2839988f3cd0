import fc from "fast-check";
import { expect, it } from "vitest";
import type { NodeSeen } from "@muster/health";
import { listForeign, planSweep } from "@muster/ledger-client/plan-sweep";
import {
  attributeObject,
  isForeign,
  planRecords,
  decideStanding,
  type OwnedObject,
  type OwnedPod,
  type RecordStep,
  type SweepSnapshot,
} from "./plan-sweep.ts";
import { getReplacementPrefix, buildReplacementPrefix } from "./replacement-owner.ts";

const POLICY = { leakAgeMs: 1000, nodeLostMs: 1000 };
const name = fc.constantFrom("a", "b", "c");
const uid = fc.constantFrom("u-1", "u-2");
const atMs = fc.integer({ min: 1, max: 5000 });

const objects: fc.Arbitrary<OwnedObject[]> = fc
  .tuple(
    fc.uniqueArray(
      fc.record({
        kind: fc.constant("pod" as const),
        pod: fc.constantFrom("a-x", "b-x", "c-x"),
        uid: fc.constantFrom("p-1", "p-2", "p-3", "p-4"),
        session: name,
        ownerUid: uid,
        otherInstallation: fc.constantFrom(undefined, "muster-2"),
        deleting: fc.boolean(),
        overdueOn: fc.constantFrom<(NodeSeen | undefined)[]>(
          undefined,
          { state: "ready" },
          { state: "not-ready", sinceMs: 1 },
          { state: "gone" },
        ),
        createdAtMs: atMs,
      }),
      { maxLength: 4, selector: ({ uid }) => uid },
    ),
    fc.uniqueArray(
      fc.record({
        kind: fc.constant("reservation" as const),
        uid: fc.constantFrom("r-1", "r-2"),
        session: name,
        createdAtMs: atMs,
        granted: fc.boolean(),
      }),
      {
        selector: ({ session }) => session,
      },
    ),
    fc.uniqueArray(
      fc
        .record({ uid: fc.constantFrom("r-3", "r-4"), session: name, of: uid, createdAtMs: atMs })
        .map(({ of, ...rest }) => ({
          ...rest,
          kind: "replacement" as const,
          ownerId: `${buildReplacementPrefix({ name: rest.session, uid: of })}-0`,
        })),
      { selector: ({ ownerId }) => ownerId },
    ),
  )
  .map((kinds) => kinds.flat());

const world: fc.Arbitrary<SweepSnapshot> = fc.record({
  nowMs: fc.constant(5000),
  sessions: fc.uniqueArray(
    fc.record({
      name,
      uid,
      finishedAtMs: fc.oneof(fc.constant(0), atMs),
      ttlMs: atMs,
      podsDeleted: fc.boolean(),
      released: fc.boolean(),
      reservationId: fc.constantFrom("", "r-1"),
      queued: fc.boolean(),
      queuedUntilMs: fc.integer({ min: 1, max: 9000 }),
      cancelRequested: fc.boolean(),
    }),
    { selector: (session) => session.name },
  ),
  objects,
});

type Step = { readonly session: string } & (
  RecordStep | { readonly kind: "remove"; readonly object: OwnedObject; readonly because: string }
);

/** Plans one sweep over the listed objects, and returns its steps and whose objects it reports. */
function plan({ objects: listed, ...rest }: SweepSnapshot): {
  readonly steps: Step[];
  readonly foreign: readonly string[];
} {
  const snapshot = { ...rest, objects: attributeObject(listed, rest.sessions) };
  const standingOf = decideStanding(snapshot, POLICY);
  const memory = { leftSince: new Map(), nowMs: rest.nowMs, graceMs: undefined };
  const removals = planSweep(snapshot.objects, standingOf, memory).flatMap(({ kind: what, object, because }): Step[] =>
    what === "remove" ? [{ kind: what, session: object.session, object, because }] : [],
  );
  return { steps: [...planRecords(snapshot), ...removals], foreign: listForeign(snapshot.objects, standingOf) };
}

/** Lists pods of other installations, judged by the stored sessions. */
function foreignOf({ sessions, objects: listed }: SweepSnapshot): OwnedPod[] {
  const storedUid = (name: string): string | undefined => sessions.find((each) => each.name === name)?.uid;
  return listed.filter((each) => each.kind === "pod").filter((pod) => isForeign(pod, storedUid(pod.session)));
}

function withoutForeign(snapshot: SweepSnapshot): SweepSnapshot {
  const foreign: readonly OwnedObject[] = foreignOf(snapshot);
  return { ...snapshot, objects: snapshot.objects.filter((object) => !foreign.includes(object)) };
}

it("does the same with and without pods of other installations, and reports each of them", () => {
  fc.assert(
    fc.property(world, (snapshot) => {
      const { steps, foreign } = plan(snapshot);
      expect({ steps, foreign: [] }).toEqual(plan(withoutForeign(snapshot)));
      expect(foreign).toEqual(foreignOf(snapshot).map(() => "muster-2"));
    }),
  );
});

it("never releases machines while one of the session's pods is listed", () => {
  fc.assert(
    fc.property(world, (snapshot) => {
      const pods = withoutForeign(snapshot).objects.filter(({ kind }) => kind === "pod");
      const withPods = new Set(pods.map(({ session }) => session));
      for (const step of plan(snapshot).steps) {
        const isOfPod = step.kind === "remove" && step.object.kind === "pod";
        if (step.kind !== "run" && step.kind !== "expire" && !isOfPod) expect(withPods).not.toContain(step.session);
      }
    }),
  );
});

it("removes nothing of a running session", () => {
  fc.assert(
    fc.property(world, (snapshot) => {
      const live = new Map(
        snapshot.sessions.filter(({ finishedAtMs }) => finishedAtMs === 0).map((each) => [each.name, each]),
      );
      for (const step of plan(snapshot).steps) {
        const session = live.get(step.session);
        if (session === undefined || step.kind === "run") continue;
        // Only objects of another generation of the name may be removed.
        expect(step.kind).toBe("remove");
        if (step.kind !== "remove") continue;
        expect(step.object.kind).not.toBe("reservation");
        if (step.object.kind === "replacement")
          expect(getReplacementPrefix(step.object.ownerId)).not.toBe(buildReplacementPrefix(session));
        if (step.object.kind !== "pod") continue;
        expect(step.because).toMatch(/^(other-generation|node-gone|node-not-ready)$/);
        expect(step.object.ownerUid).not.toBe(session.uid);
      }
    }),
  );
});

it("forces nothing on a node that answers, or is unknown", () => {
  fc.assert(
    fc.property(world, (snapshot) => {
      for (const step of plan(snapshot).steps) {
        if (step.kind !== "remove" || step.object.kind !== "pod" || !step.object.deleting) continue;
        expect(["gone", "not-ready"]).toContain(step.object.overdueOn?.state);
      }
    }),
  );
});

it("plans the same for any order of its inputs", () => {
  const sorted = (snapshot: SweepSnapshot): string[] =>
    plan(snapshot)
      .steps.map((step) => JSON.stringify(step))
      .sort();
  fc.assert(
    fc.property(world, (snapshot) => {
      const turned = {
        ...snapshot,
        sessions: snapshot.sessions.toReversed(),
        objects: snapshot.objects.toReversed(),
      };
      expect(sorted(turned)).toEqual(sorted(snapshot));
    }),
  );
});

it("plans a pass over every session that the ledger no longer queues, and over no other", () => {
  fc.assert(
    fc.property(world, (snapshot) => {
      const run = new Set(plan(snapshot).steps.flatMap((step) => (step.kind === "run" ? [step.session] : [])));
      for (const session of snapshot.sessions) {
        const waits = snapshot.objects.some(
          (each) => each.kind === "reservation" && each.session === session.name && !each.granted,
        );
        expect(run.has(session.name)).toBe(session.finishedAtMs === 0 && session.queued && !waits);
      }
    }),
  );
});

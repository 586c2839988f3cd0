import fc from "fast-check";
import { expect, it } from "vitest";
import { planSweep, type SweepSnapshot } from "./plan-sweep.ts";

const POLICY = { leakAgeMs: 1000 };
const name = fc.constantFrom("a", "b", "c");
const uid = fc.constantFrom("u-1", "u-2");
const atMs = fc.integer({ min: 1, max: 5000 });

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
    }),
    { selector: (session) => session.name },
  ),
  pods: fc.array(
    fc.record({
      pod: fc.constantFrom("a-x", "b-x", "c-x"),
      uid,
      session: name,
      ownerUid: uid,
      deleting: fc.boolean(),
      createdAtMs: atMs,
    }),
    { maxLength: 4 },
  ),
  reservations: fc.uniqueArray(fc.record({ id: fc.constantFrom("r-1", "r-2"), session: name, createdAtMs: atMs }), {
    selector: ({ session }) => session,
  }),
});

it("never gives machines back while one of its pods is listed", () => {
  fc.assert(
    fc.property(world, (snapshot) => {
      const withPods = new Set(snapshot.pods.map(({ session }) => session));
      for (const step of planSweep(snapshot, POLICY)) {
        if (step.do === "release" || step.do === "confirm-pods-gone") expect(withPods).not.toContain(step.session);
      }
    }),
  );
});

it("takes nothing from a session that runs", () => {
  fc.assert(
    fc.property(world, (snapshot) => {
      const live = new Map(
        snapshot.sessions.filter(({ finishedAtMs }) => finishedAtMs === 0).map((each) => [each.name, each]),
      );
      for (const step of planSweep(snapshot, POLICY)) {
        const session = live.get(step.session);
        if (session === undefined || step.do === "run") continue;
        // Only a pod of another generation of its name may go.
        expect(step).toMatchObject({ do: "delete-pod", because: "other-generation" });
        expect(
          snapshot.pods.some(
            (pod) => pod.pod === (step.do === "delete-pod" ? step.pod : "") && pod.ownerUid !== session.uid,
          ),
        ).toBe(true);
      }
    }),
  );
});

it("plans the same whatever the order of what it sees", () => {
  const sorted = (snapshot: SweepSnapshot): string[] =>
    planSweep(snapshot, POLICY)
      .map((step) => JSON.stringify(step))
      .sort();
  fc.assert(
    fc.property(world, (snapshot) => {
      const turned = { ...snapshot, sessions: snapshot.sessions.toReversed(), pods: snapshot.pods.toReversed() };
      expect(sorted(turned)).toEqual(sorted(snapshot));
    }),
  );
});

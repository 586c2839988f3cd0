import fc from "fast-check";
import { expect, it } from "vitest";
import type { NodeSeen } from "@muster/health";
import { isForeign, leftAlone, planSweep, type OwnedPod, type SweepSnapshot } from "./plan-sweep.ts";
import { prefixOfReplacement, replacementPrefix } from "./replacement-owner.ts";

const POLICY = { leakAgeMs: 1000, nodeLostMs: 1000 };
const name = fc.constantFrom("a", "b", "c");
const uid = fc.constantFrom("u-1", "u-2");
const atMs = fc.integer({ min: 1, max: 5000 });

const seen = fc.record({
  pods: fc.array(
    fc.record({
      pod: fc.constantFrom("a-x", "b-x", "c-x"),
      uid,
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
    { maxLength: 4 },
  ),
  reservations: fc.uniqueArray(
    fc.record({ id: fc.constantFrom("r-1", "r-2"), session: name, createdAtMs: atMs, granted: fc.boolean() }),
    {
      selector: ({ session }) => session,
    },
  ),
  replacements: fc.uniqueArray(
    fc.record({
      id: fc.constantFrom("r-3", "r-4"),
      ownerId: fc.tuple(name, uid).map((of) => `${replacementPrefix({ name: of[0], uid: of[1] })}-0`),
      createdAtMs: atMs,
    }),
    { selector: ({ ownerId }) => ownerId },
  ),
});

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
  seen: fc.option(seen, { nil: undefined, freq: 10 }),
});

/** Pods of other installations, as their sessions are stored. */
function foreignOf({ sessions, seen }: SweepSnapshot): OwnedPod[] {
  return (seen?.pods ?? []).filter((pod) => isForeign(pod, sessions.find((each) => each.name === pod.session)?.uid));
}

it("does the same whether or not pods of other installations are there, and tells of each of them", () => {
  fc.assert(
    fc.property(world, (snapshot) => {
      const foreign = foreignOf(snapshot);
      const pods = (snapshot.seen?.pods ?? []).filter((pod) => !foreign.includes(pod));
      const without = { ...snapshot, seen: snapshot.seen && { ...snapshot.seen, pods } };
      expect(planSweep(snapshot, POLICY)).toEqual(planSweep(without, POLICY));
      expect(leftAlone(snapshot)).toEqual(foreign.map(() => "muster-2"));
      expect(leftAlone(without)).toEqual([]);
    }),
  );
});

it("never gives machines back while one of its pods is listed", () => {
  fc.assert(
    fc.property(world, (snapshot) => {
      const foreign = foreignOf(snapshot);
      const pods = (snapshot.seen?.pods ?? []).filter((pod) => !foreign.includes(pod));
      const withPods = new Set(pods.map(({ session }) => session));
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
        // Only what another generation of its name left behind may go.
        if (step.do === "release-replacement") {
          expect(prefixOfReplacement(step.ownerId)).not.toBe(replacementPrefix(session));
          continue;
        }
        expect(step).toMatchObject({
          do: "delete-pod",
          because: expect.stringMatching(/^(other-generation|node-gone|node-not-ready)$/) as string,
        });
        expect(
          snapshot.seen?.pods.some(
            (pod) => pod.pod === (step.do === "delete-pod" ? step.pod : "") && pod.ownerUid !== session.uid,
          ),
        ).toBe(true);
      }
    }),
  );
});

it("forces nothing on a node that answers, or of which nothing is known", () => {
  fc.assert(
    fc.property(world, (snapshot) => {
      for (const step of planSweep(snapshot, POLICY)) {
        if (step.do !== "delete-pod" || !step.force) continue;
        const states = snapshot.seen?.pods.filter(({ uid: of }) => of === step.uid).map(({ overdueOn }) => overdueOn);
        expect(states?.some((node) => node?.state === "gone" || node?.state === "not-ready")).toBe(true);
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
      const turned = {
        ...snapshot,
        sessions: snapshot.sessions.toReversed(),
        seen: snapshot.seen && { ...snapshot.seen, pods: snapshot.seen.pods.toReversed() },
      };
      expect(sorted(turned)).toEqual(sorted(snapshot));
    }),
  );
});

it("leaves no session without somebody who looks at it, but those that the ledger has in its queue", () => {
  fc.assert(
    fc.property(world, (snapshot) => {
      const run = new Set(planSweep(snapshot, POLICY).flatMap((step) => (step.do === "run" ? [step.session] : [])));
      for (const session of snapshot.sessions) {
        if (session.finishedAtMs > 0 || run.has(session.name)) continue;
        expect(session).toMatchObject({ queued: true, cancelRequested: false });
        expect(session.queuedUntilMs).toBeGreaterThan(snapshot.nowMs);
        const reservation = snapshot.seen?.reservations.find((each) => each.session === session.name);
        if (snapshot.seen !== undefined) expect(reservation?.granted).toBe(false);
      }
    }),
  );
});

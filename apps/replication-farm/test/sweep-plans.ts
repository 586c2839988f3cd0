import type { ForcePolicy } from "@muster/health";
import { listForeign, planSweep, type OwnedObject, type SweepStep } from "@muster/ledger-client/plan-sweep";
import { decideReservationStanding, type OwnedReservation } from "../src/domain/plan-allocation.ts";
import { decidePodStanding, type OwnedPod } from "../src/domain/plan-sweep.ts";

type Uids = ReadonlySet<string>;

/** One sweep of pods by a farm that suspected these before. */
export function sweepPods(
  pods: readonly OwnedPod[],
  setUids: ReadonlyMap<string, string | undefined>,
  suspectsBefore: Uids,
  nowMs: number,
  policy: ForcePolicy,
) {
  const standingOf = (pod: OwnedPod) => decidePodStanding(pod, setUids, nowMs, policy);
  const steps = planSweep(pods, standingOf, memoryOf(suspectsBefore));
  return {
    delete: removed(steps).map((pod) => ({ pod, force: pod.deleting })),
    suspects: suspectsOf(steps),
    leftAlone: listForeign(pods, standingOf),
  };
}

/** One sweep of machines. */
export function sweepReservations(
  reservations: readonly OwnedReservation[],
  seen: Parameters<typeof decideReservationStanding>[1],
  suspectsBefore: Uids,
) {
  const objects = reservations.map((owned) => ({ owned, uid: owned.reservation }));
  const steps = planSweep(objects, ({ owned }) => decideReservationStanding(owned, seen), memoryOf(suspectsBefore));
  return { deallocate: removed(steps).map(({ owned }) => owned), suspects: suspectsOf(steps) };
}

function memoryOf(suspects: Uids) {
  return { leftSince: new Map([...suspects].map((uid) => [uid, 0])), nowMs: 0, graceMs: 0 };
}

function removed<Item>(steps: readonly SweepStep<Item>[]): readonly Item[] {
  return steps.flatMap((step) => (step.kind === "remove" ? [step.object] : []));
}

function suspectsOf(steps: readonly SweepStep<OwnedObject>[]): Uids {
  return new Set(steps.flatMap((step) => (step.kind === "keep" ? [] : step.object.uid)));
}

import type { OwnerStanding } from "@muster/ledger-client/plan-sweep";
import { getUnitOwnerId } from "./build-units.ts";
import type { PodFact, UnitSeen } from "./snapshot.ts";

/** The units of the ledger, and the existing jobs. */
type Leftovers = {
  /** The units that jobs have or wait for. */
  readonly units: readonly UnitSeen[];
  /** The owner ids of the existing jobs. */
  readonly jobs: ReadonlySet<string>;
  /** Lists pods of an owner id that may still run. */
  readonly running: (ownerId: string) => readonly PodFact[];
};

/** A pod that has outlived its job, because its labels or its owner reference were removed, and keeps the machines of a unit. */
export type PodLeft = {
  readonly ownerId: string;
  readonly job: string;
  readonly namespace: string;
  readonly pod: string;
  readonly uid: string;
  readonly node: string;
};

/**
 * Returns whether a unit is left over, because its job is deleted. A waiting request is left over whatever pods exist. Each pod of the job that may run on a
 * granted machine blocks the unit.
 */
export function decideUnitStanding(unit: UnitSeen, { jobs, running }: Omit<Leftovers, "units">): OwnerStanding {
  if (jobs.has(getUnitOwnerId(unit.id))) return { kind: "owned", because: "its job exists" };
  if (unit.state === "none" || unit.state === "unknown") return { kind: "owned", because: `it is ${unit.state}` };
  const isBlocked = podsOn(unit, running).length > 0;
  return isBlocked
    ? { kind: "blocked", because: "pods may run on its machines" }
    : { kind: "left", because: "its job is gone" };
}

/** Plans the release of units of deleted jobs, and lists the pods that block other units, except pods that are being deleted. */
export function planLeftovers({ units, ...seen }: Leftovers): {
  readonly release: readonly string[];
  readonly left: readonly PodLeft[];
} {
  const standings = units.map((unit) => ({ unit, standing: decideUnitStanding(unit, seen).kind }));
  const left = new Map<string, PodLeft>();
  for (const { unit, standing: is } of standings)
    if (is === "blocked")
      for (const each of podsOn(unit, seen.running))
        if (!each.deleting) left.set(each.uid, toLeftoverPod(getUnitOwnerId(unit.id), each));
  return {
    release: standings.flatMap(({ unit, standing: is }) => (is === "left" ? unit.id : [])),
    left: [...left.values()],
  };
}

/**
 * Lists the pods that block a unit. A pod without a node may still be placed on the machine for which it was created, and without a component on any machine.
 * On a shared machine, a pod blocks the parts of all members.
 */
function podsOn(unit: UnitSeen, running: Leftovers["running"]): readonly PodFact[] {
  if (unit.state !== "granted") return [];
  const names = new Set(unit.nodes.values());
  return running(getUnitOwnerId(unit.id)).filter((pod) => {
    const place = pod.node ?? pod.pinned ?? unit.nodes.get(pod.component);
    return place === undefined ? pod.component === "" : names.has(place);
  });
}

function toLeftoverPod(ownerId: string, { namespace, name, uid, component, node, pinned }: PodFact): PodLeft {
  const ending = `-${component}`;
  const job = component !== "" && name.endsWith(ending) ? name.slice(0, -ending.length) : "";
  return { ownerId, job, namespace, pod: name, uid, node: node ?? pinned ?? "" };
}

import { ownerIdOfUnit } from "./build-units.ts";
import type { PodFact, UnitSeen } from "./snapshot.ts";

/** What the ledger has for jobs, and which of them there still are. */
export type Leftovers = {
  /** Everything that jobs hold or wait for. */
  readonly units: readonly UnitSeen[];
  /** Owner ids. */
  readonly jobs: ReadonlySet<string>;
  /** Pods of an owner id that may still run. */
  readonly running: (ownerId: string) => readonly PodFact[];
};

/** A pod that has outlived its job, because somebody took its labels or its owner from it, and keeps the machines of a unit. */
export type PodLeft = {
  readonly ownerId: string;
  readonly job: string;
  readonly pod: string;
  readonly uid: string;
  readonly node: string;
};

/**
 * What becomes of units whose job is gone, deleted while nobody looked: requests that wait are withdrawn, whatever pods there are, and machines are given back once no pod
 * of the job may run on any machine of their unit. `left` are the pods that
 * keep the others, but for those that are being deleted.
 */
export function planLeftovers({ units, jobs, running }: Leftovers): {
  readonly release: readonly string[];
  readonly left: readonly PodLeft[];
} {
  const release: string[] = [];
  const left = new Map<string, PodLeft>();
  for (const unit of units) {
    const ownerId = ownerIdOfUnit(unit.id);
    if (jobs.has(ownerId) || unit.state === "none" || unit.state === "unknown") continue;
    const pods = unit.state === "granted" ? podsOn(unit.nodes, running(ownerId)) : [];
    if (pods.length === 0) release.push(unit.id);
    for (const each of pods) if (!each.deleting) left.set(each.uid, podLeft(ownerId, each));
  }
  return { release, left: [...left.values()] };
}

/** A pod without a node may still be put on the machine that it was made for; one of which nobody knows what it is, on any. */
function podsOn(nodes: ReadonlyMap<string, string>, pods: readonly PodFact[]): readonly PodFact[] {
  const names = new Set(nodes.values());
  return pods.filter((pod) => {
    const place = pod.node ?? pod.pinned ?? nodes.get(pod.component);
    return place === undefined ? pod.component === "" : names.has(place);
  });
}

function podLeft(ownerId: string, { name, uid, component, node, pinned }: PodFact): PodLeft {
  const ending = `-${component}`;
  const job = component !== "" && name.endsWith(ending) ? name.slice(0, -ending.length) : "";
  return { ownerId, job, pod: name, uid, node: node ?? pinned ?? "" };
}

import { isFrozen } from "./count-desired.ts";
import { buildPodName, type ReplicaPlacement } from "./replica-set.ts";
import type { SetPod, SetSnapshot } from "./set-snapshot.ts";

/** Restarts of one placement, observed by this process. */
export type PlacementRestarts = {
  /** Recreations of ended pods since the last pod that was ready for a while. */
  readonly times: number;
  readonly notBeforeMs: number;
};

type PodStep =
  | {
      readonly kind: "create";
      readonly pod: string;
      readonly ordinal: number;
      readonly node: string;
      readonly because: "missing";
    }
  /** The farm that created the pod may have died before it confirmed the pod. */
  | { readonly kind: "confirm"; readonly pod: string; readonly ordinal: number; readonly because: "not-placed" }
  | {
      readonly kind: "delete";
      readonly pod: string;
      readonly uid: string;
      /** `node-gone`: the pod waits for a node that does not exist. */
      readonly because: "no-place" | "ended" | "node-gone";
    }
  /** The pod stays without an owner: its ownership labels are removed. */
  | { readonly kind: "abandon"; readonly pod: string; readonly uid: string; readonly because: "kept" }
  | {
      readonly kind: "wait";
      readonly pod: string;
      readonly because: "disabled" | "node-unusable" | "node-taken" | "pause" | "deleting" | "nodes-unknown";
    };

/** A step that changes something. */
export type PodAction = Exclude<PodStep, { readonly kind: "wait" }>;

/**
 * Makes the pods match the record. Each placement of an enabled set gets a pod once its node accepts pods and has no other pod of this pod id; pods without a
 * placement are removed. `occupied`: nodes with a live pod of this pod id, by the pod's name.
 */
export function planPods(
  snapshot: SetSnapshot,
  occupied: ReadonlyMap<string, string>,
  restarts: ReadonlyMap<number, PlacementRestarts>,
): PodStep[] {
  const { set, pods, nodes, nowMs } = snapshot;
  const places = new Map(set.placements.map((placement) => [buildPodName(set.name, placement.ordinal), placement]));
  const isWanted = ({ name, node }: SetPod): boolean =>
    places.has(name) && (node === "" || places.get(name)?.node === node);
  const surplus = [...pods.values()].filter((pod) => !isWanted(pod) && !pod.deleting);
  const keep = set.deletion?.keepPods === true;
  const steps = surplus.map(({ name: pod, uid }): PodStep =>
    keep ? { kind: "abandon", pod, uid, because: "kept" } : { kind: "delete", pod, uid, because: "no-place" },
  );
  for (const { node, ordinal } of set.placements) {
    const pod = buildPodName(set.name, ordinal);
    const seen = pods.get(pod);
    if (seen !== undefined) {
      const isGone = nodes !== undefined && !nodes.usable.has(node) && !nodes.unusable.has(node);
      if (isWanted(seen)) steps.push(...planReplica(seen, ordinal, { isGone, isRenewed: isMakingPod(snapshot, node) }));
      continue;
    }
    const inTheWay = occupied.get(node);
    if (!isMakingPod(snapshot, node)) steps.push({ kind: "wait", pod, because: "disabled" });
    else if (nodes === undefined) steps.push({ kind: "wait", pod, because: "nodes-unknown" });
    else if (!nodes.usable.has(node)) steps.push({ kind: "wait", pod, because: "node-unusable" });
    else if (inTheWay !== undefined) steps.push({ kind: "wait", pod, because: "node-taken" });
    else if (nowMs < (restarts.get(ordinal)?.notBeforeMs ?? 0)) steps.push({ kind: "wait", pod, because: "pause" });
    else steps.push({ kind: "create", pod, ordinal, node, because: "missing" });
  }
  return steps;
}

/** A disabled set creates no pods, not even after a manual deletion. Its transfer continues, and needs the new pod. */
export function isMakingPod(
  { set, rollout }: Pick<SetSnapshot, "set" | "rollout">,
  node: ReplicaPlacement["node"],
): boolean {
  return !isFrozen(set, rollout) || node === set.transfer?.newNode;
}

function planReplica(
  { name: pod, uid, node, health, deleting }: SetPod,
  ordinal: number,
  { isGone, isRenewed }: { readonly isGone: boolean; readonly isRenewed: boolean },
): PodStep[] {
  if (deleting) return [{ kind: "wait", pod, because: "deleting" }];
  if (health === "FAILED" || health === "SUCCEEDED")
    return [isRenewed ? { kind: "delete", pod, uid, because: "ended" } : { kind: "wait", pod, because: "disabled" }];
  if (node === "" && isGone && isRenewed) return [{ kind: "delete", pod, uid, because: "node-gone" }];
  return node === "" ? [{ kind: "confirm", pod, ordinal, because: "not-placed" }] : [];
}

import { podNameOf } from "./replica-set.ts";
import type { SetPod, SetSnapshot } from "./set-snapshot.ts";

/** What became of the pods of one place, in this process. */
export type Restarts = {
  /** Pods that ended and were made anew, since one was ready for a while. */
  readonly times: number;
  readonly notBeforeMs: number;
};

export type PodStep =
  | {
      readonly do: "create";
      readonly pod: string;
      readonly ordinal: number;
      readonly node: string;
      readonly because: "missing";
    }
  /** Its maker may have died before it let the pod go to its node. */
  | { readonly do: "confirm"; readonly pod: string; readonly ordinal: number; readonly because: "not-placed" }
  | {
      readonly do: "delete";
      readonly pod: string;
      readonly uid: string;
      readonly because: "no-place" | "ended";
    }
  /** The pod stays and is nobody's: the labels by which it is the set's go. */
  | { readonly do: "abandon"; readonly pod: string; readonly uid: string; readonly because: "kept" }
  | {
      readonly do: "wait";
      readonly pod: string;
      readonly because: "node-unusable" | "node-taken" | "pause" | "deleting" | "nodes-unknown";
    };

/**
 * What makes the pods what the record says: a pod for each place, once its node takes pods and has no other of this pod id; none for what has no place. `occupied`:
 * nodes that have a live pod of this pod id, of this set or another, by the pod's name.
 */
export function planPods(
  snapshot: SetSnapshot,
  occupied: ReadonlyMap<string, string>,
  restarts: ReadonlyMap<number, Restarts>,
): PodStep[] {
  const { set, pods, nodes, nowMs } = snapshot;
  const places = new Map(set.placements.map((placement) => [podNameOf(set.name, placement.ordinal), placement]));
  const isWanted = ({ name, node }: SetPod): boolean =>
    places.has(name) && (node === "" || places.get(name)?.node === node);
  const surplus = [...pods.values()].filter((pod) => !isWanted(pod) && !pod.deleting);
  const keep = set.deletion?.keepPods === true;
  const steps = surplus.map(({ name: pod, uid }): PodStep =>
    keep ? { do: "abandon", pod, uid, because: "kept" } : { do: "delete", pod, uid, because: "no-place" },
  );
  for (const { node, ordinal } of set.placements) {
    const pod = podNameOf(set.name, ordinal);
    const seen = pods.get(pod);
    if (seen !== undefined) {
      if (isWanted(seen)) steps.push(...tend(seen, ordinal));
      continue;
    }
    const inTheWay = occupied.get(node);
    if (nodes === undefined) steps.push({ do: "wait", pod, because: "nodes-unknown" });
    else if (!nodes.usable.has(node)) steps.push({ do: "wait", pod, because: "node-unusable" });
    else if (inTheWay !== undefined && inTheWay !== pod) steps.push({ do: "wait", pod, because: "node-taken" });
    else if (nowMs < (restarts.get(ordinal)?.notBeforeMs ?? 0)) steps.push({ do: "wait", pod, because: "pause" });
    else steps.push({ do: "create", pod, ordinal, node, because: "missing" });
  }
  return steps;
}

function tend({ name: pod, uid, node, health, deleting }: SetPod, ordinal: number): PodStep[] {
  if (deleting) return [{ do: "wait", pod, because: "deleting" }];
  if (health === "FAILED" || health === "SUCCEEDED") return [{ do: "delete", pod, uid, because: "ended" }];
  return node === "" ? [{ do: "confirm", pod, ordinal, because: "not-placed" }] : [];
}

import { matchesLabels, type LabelSelector } from "@muster/names";

export type ObservedNodes = {
  /** Nodes that may run a pod of the set. */
  readonly eligible: ReadonlySet<string>;
  /** Nodes that accept pods: existing, ready and not cordoned. */
  readonly usable: ReadonlySet<string>;
  /** For each other existing node, why it accepts no pods. */
  readonly unusable: ReadonlyMap<string, string>;
  /** Nodes with a running pod of the set's pod id that belongs to no set, and the pod's name. These nodes are not eligible. */
  readonly foreign: ReadonlyMap<string, string>;
};

const NO_PODS: ReadonlyMap<string, string> = new Map();

/** A node as the watcher publishes it. */
export type ObservedNode = {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly ready: boolean;
  readonly schedulable: boolean;
  /** Since when this process has observed it not ready; undefined: it is ready. */
  readonly unreadySinceMs: number | undefined;
};

/**
 * Finds the nodes that may run a pod of a set. `foreign`: nodes with a running pod of the same pod id that belongs to no set, by the pod's name; they are not
 * eligible until that pod ends. A node that has been not ready for less than `graceMs` stays eligible for its present pod, so the restart of a kubelet moves no
 * pod. The node is not usable for a new pod.
 */
export function findNodes(
  selector: LabelSelector,
  nodes: Iterable<ObservedNode>,
  options: {
    readonly nowMs: number;
    readonly graceMs: number;
    readonly among?: ReadonlySet<string>;
    readonly foreign?: ReadonlyMap<string, string>;
  },
): ObservedNodes {
  const { nowMs, graceMs, among, foreign = NO_PODS } = options;
  const eligible = new Set<string>();
  const usable = new Set<string>();
  const unusable = new Map<string, string>();
  for (const { name, labels, ready, schedulable, unreadySinceMs } of nodes) {
    if (ready && schedulable) usable.add(name);
    else unusable.set(name, schedulable ? "it is not ready" : "it is cordoned");
    const isLost = !ready && nowMs - (unreadySinceMs ?? nowMs) >= graceMs;
    const isOurs = (among === undefined || among.has(name)) && !foreign.has(name);
    if (isOurs && schedulable && !isLost && matchesLabels(selector, labels)) eligible.add(name);
  }
  return { eligible, usable, unusable, foreign };
}

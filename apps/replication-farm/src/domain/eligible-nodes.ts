import { FaultError } from "@muster/faults";
import { checkLabelKey, checkLabelValue, matchesLabels, parseLabelSelector, type LabelSelector } from "@muster/names";

export type Nodes = {
  /** That may have a pod of the set. */
  readonly eligible: ReadonlySet<string>;
  /** That take pods at all: there, ready and not cordoned. */
  readonly usable: ReadonlySet<string>;
  /** Why each of the others that are there takes none, for people. */
  readonly unusable: ReadonlyMap<string, string>;
  /** Those with a running pod of the set's pod id that belongs to no set, and the pod's name: none of them is eligible. */
  readonly foreign: ReadonlyMap<string, string>;
};

const NO_PODS: ReadonlyMap<string, string> = new Map();

/** A node as the watcher tells it. */
export type NodeSight = {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly ready: boolean;
  readonly schedulable: boolean;
  /** Not ready since, as far as this process has seen; undefined: it is ready. */
  readonly unreadySinceMs: number | undefined;
};

/** Reads a selector that somebody wrote. Throws FaultError invalid_request, which names the field and what is wrong. */
export function readSelector(field: string, text: string): LabelSelector {
  const refuse = (reason: string): never => {
    throw new FaultError({ code: "invalid_request", field, reason: `"${text}" is not a label selector: ${reason}` });
  };
  const reasonOf = (fault: ReturnType<typeof checkLabelKey>): string | undefined =>
    fault?.code === "invalid_request" ? fault.reason : undefined;
  return parseLabelSelector(text, {
    checkKey: (key) => reasonOf(checkLabelKey(field, key)),
    checkValue: (value) => reasonOf(checkLabelValue(field, value)),
    refuse,
  });
}

/**
 * Which nodes may have a pod of a set. `foreign`: nodes whose running pod of the same pod id belongs to no set, by the pod's name; they have to wait for its end. One that has been not ready for less than `graceMs` stays eligible where it was, so that a kubelet that restarts moves nothing;
 * none of them is usable for a new pod.
 */
export function findNodes(
  selector: LabelSelector,
  nodes: Iterable<NodeSight>,
  options: {
    readonly nowMs: number;
    readonly graceMs: number;
    readonly among?: ReadonlySet<string>;
    readonly foreign?: ReadonlyMap<string, string>;
  },
): Nodes {
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

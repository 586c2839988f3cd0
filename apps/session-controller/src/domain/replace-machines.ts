import { decideForce, findRejection, listRejectingNodes, type ForceReason } from "@muster/health";
import { describeLoss, type MachineFacts } from "./describe-loss.ts";
import { mayChange } from "./decide-verdict.ts";
import { truncateMessage, hasEnded, type PodSeen } from "./summarise-components.ts";
import { isReplacing, type ComponentStatus, type SessionRecord } from "./session.ts";
import type { LivePod, ReplacementSeen, SessionPolicy, Snapshot } from "./snapshot.ts";

/** Steps that replace the machine of a component that lost its own before it started. */
export type ReplacementStep =
  | {
      readonly kind: "reserve-replacement";
      readonly component: string;
      readonly pool: string;
      /** Nodes that recently rejected the component's pods: the replacement must be another node. Absent if no node did. */
      readonly rejectedBy?: readonly string[];
      readonly because: "machine-lost";
    }
  | {
      readonly kind: "release-replacement";
      readonly component: string;
      /** Empty: any reservation that the ledger has for the component. */
      readonly reservationId: string;
      readonly because: "machine-lost" | "machine-back";
    }
  | {
      readonly kind: "delete-pod";
      readonly pod: string;
      readonly uid: string;
      readonly force: boolean;
      /** The pod is deleted only if it still has this version. */
      readonly resourceVersion: string;
      readonly because: "machine-lost" | ForceReason;
    };

/**
 * Updates the components with the state of their machines. A component whose machine is lost before it starts has no machine until its pod is gone. Then it
 * gets a granted replacement, or its own machine once that is usable again. A pod that has started keeps its machine.
 */
export function replaceMachines(snapshot: Snapshot, components: readonly ComponentStatus[]): ComponentStatus[] {
  return components.map((component, index) => {
    const before = snapshot.record.components[index];
    if (isReplacing(component)) return replaceMachine(snapshot, component);
    if (before === undefined || hasEnded(before) || !isLost(snapshot, before, before.node)) return component;
    // Only a list shows whether a container has started.
    if (snapshot.livePods === undefined && before.podIp === "" && component.state === "FAILED") return before;
    return isUnstarted(snapshot, before) ? loseMachine(snapshot, before) : component;
  });
}

/** Returns whether a lost machine requires a list of the pods: only the API server knows unrecorded pods and pods in deletion. */
export function needsListForLostMachine(facts: Pick<Snapshot, "record"> & MachineFacts): boolean {
  return facts.record.components.some((component) =>
    isReplacing(component)
      ? component.podUid !== ""
      : component.podIp === "" && !hasEnded(component) && isLost(facts, component, component.node),
  );
}

/** Plans the steps for components that wait for a replacement, or no longer need one. */
export function planReplacements(snapshot: Snapshot, policy: SessionPolicy): ReplacementStep[] {
  return snapshot.record.components.flatMap((component): ReplacementStep[] => {
    if (!isReplacing(component)) return planReturn(snapshot, component);
    const pod = livePodOf(snapshot, component);
    return [
      ...(pod === undefined ? [] : planRemoval(pod, snapshot.nowMs, policy)),
      ...planReservation(snapshot, component),
    ];
  });
}

/** Returns when a component that waits for a replacement needs the next pass; undefined: no component waits. */
export function computeReplacementWakeAtMs(
  record: SessionRecord,
  nowMs: number,
  policy: SessionPolicy,
): number | undefined {
  const times = record.components
    .filter(isReplacing)
    .map(({ podUid, lostAtMs }) => (podUid === "" ? lostAtMs + policy.replacementWaitMs : nowMs + policy.lookAgainMs));
  return times.length === 0 ? undefined : Math.min(...times);
}

function isLost(facts: MachineFacts, component: ComponentStatus, node: string): boolean {
  return describeLoss(facts, component, node) !== undefined;
}

/** Returns whether the component cannot have started: its known pod never had an address, a started container or an end. */
function isUnstarted({ pods, livePods }: Snapshot, component: ComponentStatus): boolean {
  if (livePods === undefined) return false;
  // The pods were listed after the record was written: an earlier executor created a listed pod of this name.
  if (component.podUid === "") return !livePods.some(({ pod }) => pod === component.pod);
  const live = livePods.find(({ uid }) => uid === component.podUid);
  const published = pods.find(({ uid }) => uid === component.podUid);
  const known = [live?.seen, published].filter((seen) => seen !== undefined);
  return known.length > 0 && !known.some(hasStarted) && component.podIp === "" && (live?.containers ?? []).length === 0;
}

function hasStarted({ podIp, health, exitCode }: PodSeen): boolean {
  return podIp !== "" || exitCode !== undefined || health === "READY" || health === "SUCCEEDED";
}

function loseMachine(snapshot: Snapshot, component: ComponentStatus): ComponentStatus {
  const { nowMs, record } = snapshot;
  const because = describeLoss(snapshot, component, component.node) ?? "";
  const message = truncateMessage(`waits for another machine: ${because}`, record);
  // Only the originally granted machine can be regained: a replacement is released.
  const lostNode = component.lostNode === "" ? component.node : component.lostNode;
  // A machine that rejects one pod after another does not prolong the wait for a replacement.
  const isRejectedAgain = component.lostAtMs > 0 && findRejection(snapshot.rejections, component.name, component.node);
  const lostAtMs = isRejectedAgain ? component.lostAtMs : nowMs;
  return { ...component, node: "", lostAtMs, lostNode, state: "PENDING", message };
}

function replaceMachine(snapshot: Snapshot, component: ComponentStatus): ComponentStatus {
  const { livePods, replacements } = snapshot;
  if (component.podUid !== "") {
    if (livePods === undefined) return component;
    const pod = livePodOf(snapshot, component);
    if (pod === undefined) return { ...component, podUid: "" };
    const keeps = pod.containers.length > 0 && !pod.deleting;
    return keeps ? { ...component, node: pod.seen.node, state: "UNKNOWN", message: "" } : component;
  }
  const node = findGrantedNode(replacements.get(component.name));
  if (node !== undefined && !isLost(snapshot, component, node)) return { ...component, node, message: "" };
  // The session still holds its machine, and in a small pool no other machine may ever be free.
  return canReuseMachine(snapshot, component) ? { ...component, node: component.lostNode, message: "" } : component;
}

/** Returns whether the component can use its lost machine again: pods can start on it, and the component's pod fits beside the foreign pods. */
function canReuseMachine(
  { nodesBack, crowded = [], rejections, nowMs }: Snapshot,
  { name, lostNode }: ComponentStatus,
): boolean {
  if (nowMs < (findRejection(rejections, name, lostNode)?.untilMs ?? 0)) return false;
  return nodesBack.has(lostNode) && !crowded.some(({ component, node }) => component === name && node === lostNode);
}

function livePodOf({ livePods }: Pick<Snapshot, "livePods">, { podUid }: ComponentStatus): LivePod | undefined {
  return podUid === "" ? undefined : livePods?.find(({ uid }) => uid === podUid);
}

/** Returns the node of a replacement; undefined if the replacement is not granted. */
export function findGrantedNode(replacement: ReplacementSeen | undefined): string | undefined {
  return replacement?.state === "granted" ? replacement.machines[0]?.node : undefined;
}

function planRemoval(pod: LivePod, nowMs: number, policy: SessionPolicy): ReplacementStep[] {
  const remove = {
    kind: "delete-pod",
    pod: pod.pod,
    uid: pod.uid,
    resourceVersion: String(pod.seen.resourceVersion),
  } as const;
  if (!pod.deleting) return pod.containers.length > 0 ? [] : [{ ...remove, force: false, because: "machine-lost" }];
  const because = decideForce(pod.overdueOn, nowMs, policy);
  return because === undefined ? [] : [{ ...remove, force: true, because }];
}

/** Releases the replacement of a component that has its own machine again; after a rejection, only once the component's pod has started on its own machine. */
function planReturn(
  { replacements, rejections }: Snapshot,
  { name, node, lostNode, podIp }: ComponentStatus,
): ReplacementStep[] {
  if (podIp === "" && findRejection(rejections, name, node) !== undefined) return [];
  const replacement = replacements.get(name) ?? { state: "unknown" };
  if (node === "" || node !== lostNode || replacement.state === "released" || replacement.state === "refused")
    return [];
  const reservationId = "id" in replacement ? replacement.id : "";
  return [{ kind: "release-replacement", component: name, reservationId, because: "machine-back" }];
}

function planReservation(snapshot: Snapshot, component: ComponentStatus): ReplacementStep[] {
  const { name, pool, podUid } = component;
  const { replacements } = snapshot;
  const replacement = replacements.get(name) ?? { state: "unknown" };
  const isAskedAgain = replacement.state === "refused" && mayChange(replacement);
  if (replacement.state === "unknown" || replacement.state === "released" || isAskedAgain) {
    const rejectedBy = listRejectingNodes(snapshot.rejections, (other) => other === name, snapshot.nowMs);
    const elsewhere = rejectedBy.length > 0 && { rejectedBy };
    return [{ kind: "reserve-replacement", component: name, pool, ...elsewhere, because: "machine-lost" }];
  }
  const node = findGrantedNode(replacement);
  // A pod that still exists may run on this machine.
  if (replacement.state !== "granted" || podUid !== "" || node === undefined) return [];
  if (!isLost(snapshot, component, node)) return [];
  return [{ kind: "release-replacement", component: name, reservationId: replacement.id, because: "machine-lost" }];
}

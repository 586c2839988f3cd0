import { isRejection } from "@muster/health";
import type { SessionRecord } from "./session.ts";
import type { PodSeen } from "./summarise-components.ts";

/** A machine whose kubelet has rejected the pod of a component, before a container started. */
export type Rejection = {
  readonly component: string;
  readonly node: string;
  /** Reason and message of the rejection. */
  readonly text: string;
  /** The machine is lost to the component until this time; then a pod may try it again. */
  readonly untilMs: number;
};

/** A node that has no room frees some in this time, such as that of a terminating pod. */
const LOST_MS = 30_000;
/** A rejection counts as recent for this time afterwards. */
const RECENT_MS = 10 * 60_000;

/** Adds the rejections of these pods to the known ones, and drops old ones. The time of a rejection counts from the last moment at which its pod existed. */
export function rememberRejections(
  known: readonly Rejection[],
  { components }: Pick<SessionRecord, "components">,
  pods: readonly PodSeen[],
  nowMs: number,
): readonly Rejection[] {
  const found = components.flatMap(({ name, podUid }): Rejection[] => {
    const pod = podUid === "" ? undefined : pods.find(({ uid, health }) => uid === podUid && health === "FAILED");
    if (pod === undefined || !isRejection(pod.reason) || pod.podIp !== "" || pod.exitCode !== undefined) return [];
    const text = [pod.reason, pod.message].filter((part) => part !== "").join(": ");
    return [{ component: name, node: pod.node, text, untilMs: nowMs + LOST_MS }];
  });
  const kept = known.filter(
    ({ component, node, untilMs }) =>
      nowMs < untilMs + RECENT_MS && !found.some((each) => each.component === component && each.node === node),
  );
  return [...kept, ...found];
}

/** Finds the recent rejection of a pod of the component by this node. */
export function findRejection(
  rejections: readonly Rejection[] | undefined,
  component: string,
  node: string,
): Rejection | undefined {
  return rejections?.find((each) => each.component === component && each.node === node);
}

import { describeRejection, type RejectedPod } from "@muster/health";
import type { SessionRecord } from "./session.ts";
import type { PodSeen } from "./summarise-components.ts";

/** Finds the pods of the session's components that their nodes rejected, so that no container started. */
export function listRejectedPods(
  { components }: Pick<SessionRecord, "components">,
  pods: readonly PodSeen[],
): readonly RejectedPod[] {
  return components.flatMap(({ name, podUid }): RejectedPod[] => {
    const pod = podUid === "" ? undefined : pods.find(({ uid, health }) => uid === podUid && health === "FAILED");
    if (pod === undefined || pod.podIp !== "" || pod.exitCode !== undefined) return [];
    const text = describeRejection(pod);
    return text === undefined ? [] : [{ uid: podUid, component: name, node: pod.node, text }];
  });
}

import { describeRejection, type RejectedPod } from "@muster/health";
import type { PodFact } from "./snapshot.ts";

/** Finds the members' pods that their nodes rejected, so that no container started. */
export function listRejectedPods(pods: readonly PodFact[]): readonly RejectedPod[] {
  return pods.flatMap((pod): RejectedPod[] => {
    const { uid, component, node, phase, exits } = pod;
    if (phase !== "Failed" || exits.length > 0 || node === undefined || component === "") return [];
    const text = describeRejection(pod);
    return text === undefined ? [] : [{ uid, component, node, text }];
  });
}

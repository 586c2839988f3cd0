import { isRejection, type RejectedPod } from "@muster/health";
import type { PodFact } from "./snapshot.ts";

/** Finds the members' pods that their nodes rejected, so that no container started. */
export function listRejectedPods(pods: readonly PodFact[]): readonly RejectedPod[] {
  return pods.flatMap(({ uid, component, node, phase, reason, message, exits }): RejectedPod[] => {
    const isRejected = phase === "Failed" && isRejection(reason) && exits.length === 0;
    if (!isRejected || node === undefined || component === "") return [];
    return [{ uid, component, node, text: [reason, message].filter((part) => part !== "").join(": ") }];
  });
}

import type { V1Taint, V1Toleration } from "@kubernetes/client-node";

/** Whether one toleration covers one taint. */
export function tolerates(toleration: V1Toleration, taint: V1Taint): boolean {
  if ((toleration.effect ?? "") !== "" && toleration.effect !== taint.effect) return false;
  const operator = toleration.operator ?? "Equal";
  if ((toleration.key ?? "") === "") return operator === "Exists";
  if (toleration.key !== taint.key) return false;
  return operator === "Exists" || (toleration.value ?? "") === (taint.value ?? "");
}

/** The first taint that keeps a pod with these tolerations from the node. */
export function untolerated(taints: readonly V1Taint[], tolerations: readonly V1Toleration[]): V1Taint | undefined {
  return taints
    .filter((taint) => taint.effect === "NoSchedule" || taint.effect === "NoExecute")
    .find((taint) => !tolerations.some((toleration) => tolerates(toleration, taint)));
}

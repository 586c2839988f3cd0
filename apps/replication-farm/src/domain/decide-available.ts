import type { ReplicaSetSpec } from "./replica-set.ts";
import type { SetPod } from "./set-snapshot.ts";

/** Returns when the pod will have been ready for `minReadySeconds`; undefined: it is not ready. */
function availableAtMs(
  pod: Pick<SetPod, "health" | "deleting" | "sinceMs"> | undefined,
  { minReadySeconds }: Pick<ReplicaSetSpec, "minReadySeconds">,
): number | undefined {
  return pod?.health === "READY" && !pod.deleting ? pod.sinceMs + minReadySeconds * 1000 : undefined;
}

/** Returns whether the pod has been ready for `minReadySeconds`: a program that exits soon after each start is briefly ready as well. */
export function isAvailable(
  pod: Parameters<typeof availableAtMs>[0],
  spec: Parameters<typeof availableAtMs>[1],
  nowMs: number,
): boolean {
  const atMs = availableAtMs(pod, spec);
  return atMs !== undefined && nowMs >= atMs;
}

/** Returns when the next ready pod becomes available; Infinity: no pod becomes available by time alone. */
export function nextAvailableAtMs(
  pods: ReadonlyMap<string, SetPod>,
  spec: Parameters<typeof availableAtMs>[1],
  nowMs: number,
): number {
  const times = [...pods.values()].map((pod) => availableAtMs(pod, spec) ?? 0).filter((atMs) => atMs > nowMs);
  return Math.min(...times);
}

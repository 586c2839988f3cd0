/**
 * Whether this reason of a failed pod means that the kubelet rejected it, so that no container has started: its node lacked a resource (`OutOfcpu`,
 * `OutOfnvidia.com/gpu`) or no longer matched the pod. See pkg/kubelet/lifecycle/predicate.go of Kubernetes.
 */
export function isRejection(reason: string): boolean {
  return reason.startsWith("OutOf") || reason === "NodeAffinity" || reason === "UnexpectedAdmissionError";
}

/** Returns reason and message with which the kubelet rejected a failed pod; undefined if it did not reject the pod. */
export function describeRejection({
  reason = "",
  message = "",
}: {
  readonly reason?: string | undefined;
  readonly message?: string | undefined;
}): string | undefined {
  if (!isRejection(reason)) return undefined;
  return message === "" ? reason : `${reason}: ${message}`;
}

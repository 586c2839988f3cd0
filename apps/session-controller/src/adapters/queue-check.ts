import {
  isForbidden,
  unlessMissing,
  withKubeFault,
  type CallOptions,
  type KubeCalls,
  type KubeResource,
} from "@muster/kube";

export type QueueCheckDeps = {
  readonly calls: Pick<KubeCalls, "list">;
  /** Called once: whether a Queue exists cannot be checked. */
  readonly onRefused: (problem: string) => void;
};

const QUEUES: KubeResource = { apiVersion: "muster.dev/v1", plural: "queues" };
const NO_RIGHT =
  "the session controller has no right to list queues, and assumes that none exists while none is published: " +
  "deploy/kubernetes/session-controller.yaml grants it";

/**
 * Whether a Queue exists, as the API server has it. Without the definition none does; without the right to list them none is assumed. Rejects with a
 * FaultError when the API server does not answer.
 */
export function queueCheck({ calls, onRefused }: QueueCheckDeps): (options?: CallOptions) => Promise<boolean> {
  let isReported = false;
  return async (options) => {
    try {
      const page = await withKubeFault(unlessMissing(calls.list(QUEUES, { ...options, query: { limit: 1 } })));
      return page !== undefined && page.items.length > 0;
    } catch (error) {
      if (!isForbidden(error)) throw error;
      if (!isReported) onRefused(NO_RIGHT);
      isReported = true;
      return false;
    }
  };
}

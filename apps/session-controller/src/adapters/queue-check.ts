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
  /** Called once if the API server refuses to list Queues. */
  readonly onRefused: (problem: string) => void;
};

const QUEUES: KubeResource = { apiVersion: "muster.dev/v1", plural: "queues" };
const NO_RIGHT =
  "the session controller has no right to list queues, and assumes that none exists while none is published: " +
  "deploy/kubernetes/session-controller.yaml grants it";

/**
 * Returns whether a Queue exists at the API server. A missing definition or a missing right to list counts as no Queue. Rejects with FaultError if the API
 * server does not answer. Calls without options during a list share the next list.
 */
export function makeQueueCheck({ calls, onRefused }: QueueCheckDeps): (options?: CallOptions) => Promise<boolean> {
  let isReported = false;
  const check = async (options?: CallOptions): Promise<boolean> => {
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
  const shared = shareNext(check);
  return (options) => (options === undefined ? shared() : check(options));
}

/** Runs the work without overlap. A call never gets the result of a run that began earlier, so the result is never older than the call. */
function shareNext<Value>(work: () => Promise<Value>): () => Promise<Value> {
  let running: Promise<unknown> = Promise.resolve();
  let next: Promise<Value> | undefined;
  return () => {
    next ??= running.then(() => {
      next = undefined;
      const run = work();
      running = run.catch(() => undefined);
      return run;
    });
    return next;
  };
}

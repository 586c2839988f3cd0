import { type KubeCalls, toKubeFault } from "@muster/kube";
import { recordEvent } from "../record-event.ts";
import type { PodName } from "./pod-api.ts";
import type { PodWorkerDeps } from "./pod-worker.ts";

/** Records events of one pod's containers in the background, as this node's kubelet. An event in a deleted namespace is dropped. */
export function makeContainerEventRecorder(
  calls: KubeCalls,
  { name, namespace, uid }: PodName,
  node: {
    readonly nodeName: string;
    readonly now: () => number;
    readonly onError: (error: unknown, doing: string) => void;
    /** Unwritten events are dropped after this signal. */
    readonly stopped: AbortSignal;
  },
): PodWorkerDeps["record"] {
  // Events are written in sequence, to keep their order.
  let last = Promise.resolve();
  return ({ container, ...event }) => {
    const atMs = node.now();
    const involved = { kind: "Pod", name, namespace, uid, fieldPath: `spec.containers{${container}}` } as const;
    last = last
      .then(() => recordEvent(calls, { component: "kubelet", host: node.nodeName }, involved, { ...event, atMs }))
      .catch((error: unknown) => {
        if (!node.stopped.aborted && toKubeFault(error)?.code !== "not_found")
          node.onError(error, `recording ${event.reason}`);
      });
  };
}

/** Returns a signal that aborts when the stack is disposed. */
export function makeStopSignal(started: AsyncDisposableStack): AbortSignal {
  const stop = new AbortController();
  started.defer(() => stop.abort());
  return stop.signal;
}

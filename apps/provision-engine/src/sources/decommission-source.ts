import type { ExpiryHeap } from "../lead/expiry-heap.ts";
import type { LeaseSource } from "./lease-source.ts";

export type DecommissionSourceDeps = {
  /** Leases by when they are to be looked at. What is brought is taken out: whoever has looked puts it in again. */
  readonly heap: ExpiryHeap;
  readonly nowNs: () => bigint;
  /** Resolves once it is strictly after the time, when the heap has changed, or soon after the signal. */
  readonly wait: (untilNs: bigint | undefined, signal: AbortSignal) => Promise<void>;
};

/** Brings each lease as soon as its time is over, the earliest first. */
export function newDecommissionSource({ heap, nowNs, wait }: DecommissionSourceDeps): LeaseSource {
  return async function* (signal) {
    while (!signal.aborted) {
      for (const id of heap.takeOver(nowNs())) yield { kind: "due", id };
      await wait(heap.next, signal);
    }
  };
}

import { makeBell, TIMER_MS_MAX } from "@muster/backoff";
import { waitMsUntil } from "@muster/leases";
import { decideRetry, type RetryPolicy } from "../domain/decide-retry.ts";
import { ExpiryHeap } from "./expiry-heap.ts";
import { newDecommissionSource } from "../sources/decommission-source.ts";

export type LeaseLoopOptions = {
  /** Looks at one lease; resolves with when to look again, undefined: once something has changed. */
  readonly work: (id: string) => Promise<bigint | undefined>;
  readonly nowNs: () => bigint;
  readonly retry: RetryPolicy;
  /** Told of work that failed, which is tried again with a growing pause. */
  readonly failed: (id: string, error: unknown) => void;
  readonly signal: AbortSignal;
};

/** Work on many leases: strictly one after the other on each of them, and beside each other on different ones. */
export type LeaseLoop = {
  /** Looks at the lease now, or as soon as the look that is under way has ended. */
  wake(id: string): void;
  /** Looks at it strictly after the time, instead of the time that it had. */
  at(id: string, atNs: bigint | undefined): void;
  /** Resolves after the signal, once nothing is under way. */
  readonly done: Promise<void>;
};

/** A clock that is set is noticed after this. */
const WAIT_MS_MAX = Math.min(10_000, TIMER_MS_MAX);

export function startLeaseLoop({ work, nowNs, retry, failed, signal }: LeaseLoopOptions): LeaseLoop {
  const heap = new ExpiryHeap();
  const bell = makeBell();
  const underWay = new Map<string, Promise<void>>();
  const again = new Set<string>();
  const failures = new Map<string, number>();

  const at = (id: string, atNs: bigint | undefined): void => {
    const before = heap.next;
    if (atNs === undefined) heap.delete(id);
    else heap.set(id, atNs);
    if (heap.next !== before) bell.ring();
  };
  const look = async (id: string): Promise<void> => {
    try {
      const untilNs = await work(id);
      failures.delete(id);
      if (untilNs !== undefined) at(id, untilNs);
    } catch (error) {
      if (signal.aborted) return;
      const times = (failures.get(id) ?? 0) + 1;
      failures.set(id, times);
      failed(id, error);
      at(id, decideRetry(times, nowNs(), retry));
    }
  };
  const wake = (id: string): void => {
    if (signal.aborted) return;
    heap.delete(id);
    if (underWay.has(id)) {
      again.add(id);
      return;
    }
    const looking = look(id).then(() => {
      underWay.delete(id);
      if (again.delete(id)) wake(id);
    });
    underWay.set(id, looking);
  };
  const follow = async (): Promise<void> => {
    const due = newDecommissionSource({
      heap,
      nowNs,
      wait: async (untilNs) => {
        const waitMs = untilNs === undefined ? WAIT_MS_MAX : waitMsUntil(untilNs, nowNs(), WAIT_MS_MAX);
        await bell.wait(waitMs, signal);
      },
    });
    for await (const job of due(signal)) if (job.kind === "due") wake(job.id);
    while (underWay.size > 0) await Promise.all(underWay.values());
  };
  return { wake, at, done: follow() };
}

import type { CallPauses } from "./call-pauses.ts";
import type { LeaseChecks } from "./check-lease.ts";
import type { LeaseRecord } from "../domain/lease.ts";
import type { PodExits } from "../domain/count-exits.ts";
import type { LeaseRegistry } from "../holdings/lease-registry.ts";
import type { LeaseWait } from "../domain/plan-lease.ts";

/** The observed pods of leases. The observation may be behind, but never goes back. */
export type CrashWatch = {
  /** Exits of this run of the lease; empty until the API server has answered. */
  exitsOf(lease: Pick<LeaseRecord, "order" | "run" | "madeFor">): readonly PodExits[];
  /** Calls the listener with the origin id of each lease whose container has exited. Returns the function that unsubscribes. */
  onExit(listener: (lease: string) => void): () => void;
  /** Calls the listener with the origin id of each lease that has lost a pod, for any reason. Returns the function that unsubscribes. */
  onGone(listener: (lease: string) => void): () => void;
};

export type HintDeps = {
  readonly crashes: Pick<CrashWatch, "onExit" | "onGone">;
  /** Calls the listener with the origin id of each lease that the ledger has granted machines. Returns the function that unsubscribes. */
  readonly grants: { onGrant(listener: (lease: string) => void): () => void };
  readonly holdings: Pick<LeaseRegistry, "find">;
  readonly nowNs: () => bigint;
};

type Hinted = {
  readonly checks: Pick<LeaseChecks, "soon">;
  readonly pauses: Pick<CallPauses, "noteGrant">;
  readonly wake: (id: string) => void;
};

/** Wakes the leases that hints concern; the next scheduled pass replaces a lost hint. Returns the function that stops the wakes. */
export function followHints(ops: HintDeps, { checks, pauses, wake }: Hinted): () => void {
  const { crashes, grants, nowNs } = ops;
  const stops = [
    crashes.onExit((id) => wake(findHolder(ops, id))),
    crashes.onGone((id) => {
      const holder = findHolder(ops, id);
      checks.soon(holder, nowNs());
      wake(holder);
    }),
    grants.onGrant((id) => {
      const holder = findHolder(ops, id);
      // A pending call can be retried now; an active lease may have regained machines.
      if (ops.holdings.find(holder)?.phase === "PROVISIONING") pauses.noteGrant(holder);
      checks.soon(holder, nowNs());
      wake(holder);
    }),
  ];
  return () => {
    for (const stop of stops) stop();
  };
}

/** Returns the lease that now has the workload that was first created for this one. */
function findHolder({ holdings }: Pick<HintDeps, "holdings">, id: string): string {
  const passed = new Set([id]);
  for (let holder = id; ;) {
    const heir = holdings.find(holder)?.heir;
    if (heir === undefined || passed.has(heir)) return holder;
    passed.add(heir);
    holder = heir;
  }
}

/** Leases that wait for other leases, and are woken when one of those changes. */
export type WaitingLeases = {
  /** Undefined: the lease no longer waits. */
  set(id: string, wait: LeaseWait | undefined): void;
  ids(): Iterable<string>;
  /** Leases that may continue after the change of this one. */
  helpedBy(changed: { readonly id: string; readonly isOver: boolean }): string[];
};

export function makeWaitingLeases(): WaitingLeases {
  const waiting = new Map<string, LeaseWait>();
  /** Ids of waiting leases, by the lease that each waits for. */
  const waiters = new Map<string, Set<string>>();
  const leave = (id: string): void => {
    for (const lease of waiting.get(id)?.leases ?? []) {
      const others = waiters.get(lease);
      others?.delete(id);
      if (others?.size === 0) waiters.delete(lease);
    }
    waiting.delete(id);
  };
  return {
    set: (id, wait) => {
      leave(id);
      if (wait === undefined) return;
      waiting.set(id, wait);
      for (const lease of wait.leases) waiters.set(lease, (waiters.get(lease) ?? new Set<string>()).add(id));
    },
    ids: () => waiting.keys(),
    helpedBy: ({ id, isOver }) =>
      [...(waiters.get(id) ?? [])].filter((each) => isOver || waiting.get(each)?.until === "changed"),
  };
}

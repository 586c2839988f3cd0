import type { Wait } from "../domain/plan-lease.ts";

/** Leases that wait for others, and are woken when one of those changes. */
export type WaitingLeases = {
  /** Undefined: it no longer waits. */
  set(id: string, wait: Wait | undefined): void;
  /** Leases that may continue after the change of this one. */
  helpedBy(changed: { readonly id: string; readonly isOver: boolean }): string[];
};

export function waitingLeases(): WaitingLeases {
  const waiting = new Map<string, Wait>();
  /** By the lease that they wait for. */
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
    helpedBy: ({ id, isOver }) =>
      [...(waiters.get(id) ?? [])].filter((each) => isOver || waiting.get(each)?.until === "changed"),
  };
}

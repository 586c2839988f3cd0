import type { CallPauses } from "./call-pauses.ts";
import type { Checks } from "./checks.ts";
import type { LeaseRecord } from "../domain/lease.ts";
import type { PodExits } from "../domain/count-exits.ts";
import type { Holdings } from "../holdings/holdings.ts";

/** What is seen of the pods of leases; it may be behind, and never goes back. */
export type CrashWatch = {
  /** Of this run of the lease; none while the API server has not been heard. */
  exitsOf(lease: Pick<LeaseRecord, "order" | "run" | "madeFor">): readonly PodExits[];
  /** Told the id of each lease of whose workload, as it was made first, something has exited. Returns the way to stop. */
  onExit(listener: (lease: string) => void): () => void;
  /** Told likewise of each of which a pod has vanished, for whatever reason. Returns the way to stop. */
  onGone(listener: (lease: string) => void): () => void;
};

export type HintDeps = {
  readonly crashes: Pick<CrashWatch, "onExit" | "onGone">;
  /** Told the id of each lease, as what is there of it was made first, that the ledger has granted machines. Returns the way to stop. */
  readonly grants: { onGrant(listener: (lease: string) => void): () => void };
  readonly holdings: Pick<Holdings, "find">;
  readonly nowNs: () => bigint;
};

type Hinted = {
  readonly checks: Pick<Checks, "soon">;
  readonly pauses: Pick<CallPauses, "noteGrant">;
  readonly wake: (id: string) => void;
};

/** Looks sooner at a lease of which something is heard, whose workload it was made for first: what is not heard is found in its time. Returns the way to stop. */
export function followHints(ops: HintDeps, { checks, pauses, wake }: Hinted): () => void {
  const { crashes, grants, nowNs } = ops;
  const stops = [
    crashes.onExit((id) => wake(holderOf(ops, id))),
    crashes.onGone((id) => {
      const holder = holderOf(ops, id);
      checks.soon(holder, nowNs());
      wake(holder);
    }),
    grants.onGrant((id) => {
      const holder = holderOf(ops, id);
      // Of one that is asked for; an active one may have machines again that it had lost.
      if (ops.holdings.find(holder)?.phase === "PROVISIONING") pauses.noteGrant(holder);
      checks.soon(holder, nowNs());
      wake(holder);
    }),
  ];
  return () => {
    for (const stop of stops) stop();
  };
}

/** Of what was made for one lease, the one that has it. */
function holderOf({ holdings }: Pick<HintDeps, "holdings">, id: string): string {
  const passed = new Set([id]);
  for (let holder = id; ;) {
    const heir = holdings.find(holder)?.heir;
    if (heir === undefined || passed.has(heir)) return holder;
    passed.add(heir);
    holder = heir;
  }
}

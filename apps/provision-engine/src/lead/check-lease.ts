import { retryOnConflict } from "@muster/backoff";
import { isOver, type Result } from "@muster/leases";
import { buildResult } from "../domain/build-result.ts";
import { transitionLease } from "../domain/transition-lease.ts";
import type { Outcome, PassDeps } from "./pass.ts";
import type { LeaseRecord } from "../domain/lease.ts";

export type CheckDeps = Pick<PassDeps, "fence" | "now" | "read" | "write" | "sign"> & {
  /** Checks an active lease and recreates what is missing. Undefined: the lease has ended; an outcome that `isWaiting`: the check was not possible. */
  readonly check: (record: LeaseRecord) => Promise<Outcome | undefined>;
};

/** Checks one active lease and records changes. Returns whether it is troubled. Must not run concurrently with a pass over the same lease. */
export async function checkLease(deps: CheckDeps, id: string): Promise<boolean> {
  const found = await activeLease(deps, id);
  if (found === undefined) return false;
  const outcome = await deps.check(found.record);
  // An unavailable dependency says nothing about the lease.
  if (outcome === undefined || (!outcome.ok && outcome.isWaiting === true)) return false;
  return retryOnConflict(`lease ${id}`, async () => {
    const stored = await activeLease(deps, id);
    if (stored?.record.run !== found.record.run) return { unchanged: false };
    const { next } = transitionLease(stored.record, changeBy(deps, stored.record, outcome), deps.now());
    if (next === undefined) return { unchanged: !outcome.ok };
    return { write: () => deps.write(stored, next).then(() => !outcome.ok) };
  });
}

async function activeLease({ fence, now, read }: CheckDeps, id: string) {
  const stored = await read(id);
  if (stored === undefined || stored.record.fence > fence) return undefined;
  const { phase, expiresAtNs } = stored.record;
  return phase === "ACTIVE" && !isOver(expiresAtNs, now()) ? stored : undefined;
}

function changeBy({ sign, now }: CheckDeps, { order, result }: LeaseRecord, outcome: Outcome) {
  if (!outcome.ok) return { kind: "checked", trouble: outcome.message, result: undefined } as const;
  const changed = (): Result => sign(buildResult(order, { data: outcome.data }, now()));
  const { recreated = [] } = outcome;
  return {
    kind: "checked",
    trouble: "",
    result: outcome.data === result?.data ? undefined : changed(),
    recreated,
  } as const;
}

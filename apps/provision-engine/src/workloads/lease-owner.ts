import { originOf, type LeaseRecord } from "../domain/lease.ts";

/** Who holds the machines of one run of a lease, in the ledger. */
export type LeaseOwner = { readonly kind: string; readonly id: string };

/** Of leases, in the ledger. */
export const OWNER_KIND = "lease";

/** A number, a number, and the run. */
const OWNER_ID = /^(\d+-\d+)-([1-9]\d{0,14})$/;

/** Each run has a name of its own, so that what gives back an earlier one late gives back nothing of a later one. */
export function leaseOwner(lease: Pick<LeaseRecord, "order" | "run" | "madeFor">): LeaseOwner {
  const { id, run } = originOf(lease);
  return { kind: OWNER_KIND, id: `${id}-${run}` };
}

/** Of more runs, those before are clean-up's: at the end of a lease each costs a call. */
const RUNS_MOST = 20;

/** Those of this run and of earlier ones, the latest first: what was asked for in an earlier run may have been granted after that was over. */
export function leaseOwners(lease: Pick<LeaseRecord, "order" | "run" | "madeFor">): LeaseOwner[] {
  const { id, run } = originOf(lease);
  const runs = Array.from({ length: Math.min(run, RUNS_MOST) }, (_, before) => run - before);
  return runs.map((each) => ({ kind: OWNER_KIND, id: `${id}-${each}` }));
}

/** The lease, and the run of it, that machines are held for; undefined: `id` is no owner's that an engine would name. */
export function leaseOfOwner(id: string): { readonly id: string; readonly run: number } | undefined {
  const [, lease, run] = OWNER_ID.exec(id) ?? [];
  return lease === undefined || run === undefined ? undefined : { id: lease, run: Number(run) };
}

import type { Lease, Reservation, ReservationExplanation, Session } from "../adapters/messages.ts";
import { timeOf } from "./work.ts";

/** When a request gets its machines at the latest, as far as deadlines show it. */
export type StartEstimate = {
  /** Undefined: unknown. */
  readonly byMs: number | undefined;
  /** What the time follows from, or why it is unknown. */
  readonly because: string;
};

type Owner = { readonly kind: string; readonly id: string };

/** The latest end of each owner that has one, by `kind/id`: the timeout of a session, the expiry of a lease, the deadline of a preemption. */
export function latestEnds(
  reservations: readonly Reservation[],
  sessions: readonly Session[],
  leases: readonly Lease[],
): ReadonlyMap<string, number> {
  const ends = new Map<string, number>();
  const add = (owner: Owner | undefined, atMs: number): void => {
    if (owner === undefined || !(atMs > 0)) return;
    const key = keyOf(owner);
    ends.set(key, Math.min(atMs, ends.get(key) ?? atMs));
  };
  for (const { owner, preemption } of reservations) add(owner, preemption?.deadlineMs ?? 0);
  for (const { name, spec, events } of sessions) {
    const provisionedMs = events.find(({ kind }) => kind === "PROVISION")?.atMs ?? 0;
    const timeoutMs = spec?.timeoutMs ?? 0;
    if (provisionedMs > 0 && timeoutMs > 0) add({ kind: "session", id: name }, provisionedMs + timeoutMs);
  }
  for (const { record } of leases) add({ kind: "lease", id: record?.order?.id ?? "" }, timeOf(record?.expiresAt));
  return ends;
}

/** Codes of requests that wait for whole machines of pools. */
const FOR_MACHINES: ReadonlySet<string> = new Set(["POOL_AVAILABILITY", "HELD_FOR_OLDER"]);

/** The start of a request that waits. Only deadlines count: how long work takes without one is unknown. */
export function estimateStart(explained: ReservationExplanation, ends: ReadonlyMap<string, number>): StartEstimate {
  const { code, place, preempted, preemptedMore, pools } = explained;
  if (code === "") return unknown("the request does not wait");
  if (code === "WAITING_FOR_PREEMPTED") {
    if (preemptedMore > 0) return unknown("not all work that must leave is listed");
    return lastOf(preempted.map(({ owner }) => endOf(owner, ends)));
  }
  const ahead = place?.ahead ?? 0;
  if (ahead > 0) return unknown(`${ahead} ${ahead === 1 ? "request goes" : "requests go"} first`);
  if (!FOR_MACHINES.has(code)) return unknown("what it waits for has no deadline");
  return lastOf(pools.map((pool) => freeIn(pool, ends)));
}

/** When enough whole machines of a pool are free. */
function freeIn(pool: ReservationExplanation["pools"][number], ends: ReadonlyMap<string, number>): StartEstimate {
  if (pool.parts.length > 0) return unknown(`it needs parts of machines of ${pool.pool}`);
  let missing = pool.requested - pool.available;
  let last: StartEstimate = { byMs: 0, because: "" };
  if (missing <= 0) return last;
  if (pool.requested > pool.capacity) return unknown(`${pool.pool} has ${pool.capacity} machines now`);
  const holders = pool.holders
    .filter(({ parts }) => parts === 0)
    .map((holder) => ({ holder, end: endOf(holder.owner, ends) }));
  const known = holders.filter(({ end }) => end.byMs !== undefined);
  for (const { holder, end } of known.toSorted((one, other) => (one.end.byMs ?? 0) - (other.end.byMs ?? 0))) {
    missing -= holder.machines;
    last = end;
    if (missing <= 0) return last;
  }
  return (
    holders.find(({ end }) => end.byMs === undefined)?.end ?? unknown(`not all holders of ${pool.pool} are listed`)
  );
}

function endOf(owner: Owner | undefined, ends: ReadonlyMap<string, number>): StartEstimate {
  const name = owner === undefined ? "a holder" : keyOf(owner);
  const byMs = owner && ends.get(keyOf(owner));
  return byMs === undefined ? unknown(`${name} has no deadline`) : { byMs, because: `${name} ends by then` };
}

/** The latest of all; unknown as soon as one is. */
function lastOf(all: readonly StartEstimate[]): StartEstimate {
  const latest = all.toSorted((one, other) => (other.byMs ?? Infinity) - (one.byMs ?? Infinity))[0];
  return latest === undefined || latest.byMs === 0 ? unknown("the ledger names nothing that it waits for") : latest;
}

function unknown(because: string): StartEstimate {
  return { byMs: undefined, because };
}

function keyOf({ kind, id }: Owner): string {
  return `${kind}/${id}`;
}

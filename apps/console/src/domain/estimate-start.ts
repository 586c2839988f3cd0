import type { Lease, Reservation, ReservationExplanation, Session } from "../adapters/messages.ts";
import { timeOf } from "./work.ts";

/** The latest time at which a request gets its machines, as far as deadlines determine it. */
export type StartEstimate = {
  /** Undefined if unknown. */
  readonly byMs: number | undefined;
  /** The reason for the time, or why it is unknown. */
  readonly because: string;
};

type Owner = { readonly kind: string; readonly id: string };

/** Returns the latest end of each owner that has one, by `kind/id`: the timeout of a session, the expiry of a lease, the deadline of a preemption. */
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

/** Codes of requests that wait for the end of work, which may have a deadline. */
const HAS_DEADLINES: ReadonlySet<string> = new Set(["POOL_AVAILABILITY", "HELD_FOR_OLDER", "CONCURRENCY_LIMIT"]);

/** Estimates the start of a waiting request. Only deadlines count, because the duration of work without one is unknown. */
export function estimateStart(explained: ReservationExplanation, ends: ReadonlyMap<string, number>): StartEstimate {
  const { code, place, preempted, preemptedMore, pools } = explained;
  if (code === "") return unknown("the request does not wait");
  if (code === "WAITING_FOR_PREEMPTED") {
    if (preemptedMore > 0) return unknown("not all work that must leave is listed");
    return lastOf(preempted.map(({ owner }) => endOf(owner, ends)));
  }
  const ahead = place?.ahead ?? 0;
  if (ahead > 0) return unknown(`${ahead} ${ahead === 1 ? "request goes" : "requests go"} first`);
  if (!HAS_DEADLINES.has(code)) return unknown("what it waits for has no deadline");
  return lastOf([estimateFreePlace(explained, ends), ...pools.map((pool) => estimateFreeMachines(pool, ends))]);
}

const NOW: StartEstimate = { byMs: 0, because: "" };

/** Estimates when the concurrency limit of the request's kind admits one more owner. */
function estimateFreePlace({ concurrency }: ReservationExplanation, ends: ReadonlyMap<string, number>): StartEstimate {
  if (concurrency === undefined || concurrency.limit === 0 || concurrency.granted < concurrency.limit) return NOW;
  const ended = concurrency.holders.map(({ owner }) => ({ units: 1, end: endOf(owner, ends) }));
  return estimateNthEnd(concurrency.granted - concurrency.limit + 1, ended) ?? unknown("not all holders are listed");
}

/** Estimates when enough whole machines of a pool are free. */
function estimateFreeMachines(
  { pool, parts, requested, available, capacity, holders }: ReservationExplanation["pools"][number],
  ends: ReadonlyMap<string, number>,
): StartEstimate {
  if (parts.length > 0) return unknown(`it needs parts of machines of ${pool}`);
  if (requested <= available) return NOW;
  if (requested > capacity) return unknown(`${pool} has ${capacity} machines now`);
  const whole = holders.filter((holder) => holder.parts === 0);
  const ended = whole.map(({ owner, machines }) => ({ units: machines, end: endOf(owner, ends) }));
  return estimateNthEnd(requested - available, ended) ?? unknown(`not all holders of ${pool} are listed`);
}

type Ended = { readonly units: number; readonly end: StartEstimate };

/** Estimates when the wanted number of units is free, the earliest ends first; an unknown end makes the time unknown. Undefined if too few units exist. */
function estimateNthEnd(wanted: number, ended: readonly Ended[]): StartEstimate | undefined {
  let missing = wanted;
  for (const { units, end } of ended.toSorted(
    (one, other) => (one.end.byMs ?? Infinity) - (other.end.byMs ?? Infinity),
  )) {
    missing -= units;
    if (missing <= 0 || end.byMs === undefined) return end;
  }
  return undefined;
}

function endOf(owner: Owner | undefined, ends: ReadonlyMap<string, number>): StartEstimate {
  const name = owner === undefined ? "a holder" : keyOf(owner);
  const byMs = owner && ends.get(keyOf(owner));
  return byMs === undefined ? unknown(`${name} has no deadline`) : { byMs, because: `${name} ends by then` };
}

/** Returns the latest time; unknown if any time is unknown. */
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

import { mayHoldResources, getOrigin, type LeaseRecord, type LeasePhase } from "@muster/provision-engine/lease";
import { sumHeldUnits } from "@muster/provision-engine/workload-types";
import { parseLeaseOwner, OWNER_KIND } from "@muster/provision-engine/machine";
import { recordCodec } from "@muster/provision-engine/messages";
import { muster, streams, subjects } from "@muster/proto";
import { getReservationId } from "@muster/reservation-manager/reservation";
import { getLedger } from "./observe.ts";
import { MAX_CLOCK_SKEW_MS } from "./clocks.ts";
import { ENGINE, type WatchWorkload } from "./replicas/provision-engine.ts";
import type { Violation } from "./step-checks.ts";
import { findWrongTakeOvers, findWorkload } from "./take-over-checks.ts";
import { CALM } from "./fault-risks.ts";
import type { World } from "./world.ts";

/** Checks the rules of leases, at each write and at the end. */
export type LeaseChecks = {
  /** Observes the concurrent calls of one process. */
  readonly watchWorkload: WatchWorkload;
  /** Checks the final state, once every lease has ended. */
  judge(): void;
};

type Violate = (lease: string | undefined, rule: string, found: string) => void;

/** The decommission of a lease starts within this time after its end. */
const ENDS_WITHIN_MS = 1000;
/** Delays are allowed for this time after a fault, because failed calls are retried after a pause. */
const SETTLE_MS = 15_000;
const POLL_MS = 100;

/** Types that have objects in the simulated cluster. */
const IN_CLUSTER: ReadonlySet<string> = new Set(["network", "container"]);

const NEXT_PHASES: Readonly<Record<LeasePhase, readonly LeasePhase[]>> = {
  ORDERED: ["PROVISIONING", "DECOMMISSIONING", "ENDED", "FAILED"],
  PROVISIONING: ["ACTIVE", "DECOMMISSIONING"],
  ACTIVE: ["DECOMMISSIONING"],
  DECOMMISSIONING: ["ENDED", "FAILED"],
  ENDED: [],
  FAILED: ["ORDERED", "ENDED"],
};

export function watchLeases(world: World, violations: Violation[]): LeaseChecks {
  const violate: Violate = (lease, rule, found) => {
    world.trace.note("check", `VIOLATION ${lease ?? ""} ${rule}: ${found}`);
    violations.push({ atMs: world.time.nowMs, session: lease, rule, found });
  };
  const objects = watchObjects(world, violate);
  const calmSinceMs = watchUndisturbed(world);
  /** Signatures of all results that records ever had. */
  const results = new Set<string>();
  world.leases.onWrite.push((id, beforeBytes, afterBytes) => {
    const before = beforeBytes && decodeLease(beforeBytes);
    const after = afterBytes && decodeLease(afterBytes);
    if (after === undefined) {
      if (before !== undefined && mayHoldResources(before.phase))
        violate(id, "a lease with objects has a record", before.phase);
      if (before?.heir !== undefined && mayHoldResources(findLease(world, before.heir)?.phase ?? "ENDED"))
        violate(id, "a record stays while its heir has objects", before.heir);
      return;
    }
    if (after.result !== undefined) results.add(formatHex(after.result.signature));
    if (before !== undefined) checkWrite(id, before, after, violate);
    checkCapacity(world, violate);
    for (const { rule, found } of findWrongTakeOvers(listLeases(world), (each) => findLease(world, each)))
      violate(id, rule, found);
    for (const each of [before, after]) if (each?.phase === "ACTIVE") checkObjects(world, each, violate);
    if (after.phase === "ENDED" || after.phase === "FAILED") objects.mustBeGone(after);
    if (isRunning(after) && (before === undefined || before.expiresAtNs !== after.expiresAtNs))
      expectEnd(world, after, calmSinceMs, violate);
  });
  return {
    watchWorkload: watchCalls(violate),
    judge: () => {
      judgeRecords(world, results, violate);
      judgeLeftovers(world, violate);
    },
  };
}

const decoded = new WeakMap<Uint8Array, LeaseRecord>();

/** Decodes each stored record once. */
function decodeLease(bytes: Uint8Array): LeaseRecord {
  const known = decoded.get(bytes);
  if (known !== undefined) return known;
  const read = recordCodec.decode(bytes);
  if (!("record" in read)) throw new Error(`a lease cannot be read: ${read.unreadable}`);
  decoded.set(bytes, read.record);
  return read.record;
}

export function findLease({ leases }: World, id: string): LeaseRecord | undefined {
  const kept = leases.entries.get(id);
  return kept && decodeLease(kept.bytes);
}

function listLeases({ leases }: World): LeaseRecord[] {
  return [...leases.entries.values()].map(({ bytes }) => decodeLease(bytes));
}

function isRunning({ phase }: LeaseRecord): boolean {
  return phase === "ORDERED" || phase === "PROVISIONING" || phase === "ACTIVE";
}

function checkWrite(id: string, before: LeaseRecord, after: LeaseRecord, violate: Violate): void {
  // The heir of the lease has taken over the workload.
  const isHandedOver = before.phase === "ACTIVE" && after.phase === "ENDED" && after.heir !== undefined;
  if (after.phase !== before.phase && !NEXT_PHASES[before.phase].includes(after.phase) && !isHandedOver)
    violate(id, "a lease goes through its phases in order", `${before.phase} became ${after.phase}`);
  if (after.fence < before.fence) violate(id, "the fence only grows", `${before.fence} became ${after.fence}`);
  if (after.run < before.run || (after.run > before.run && before.phase !== "FAILED"))
    violate(id, "only a failed lease runs again", `run ${before.run}, ${before.phase}, became run ${after.run}`);
  if (after.events < before.events)
    violate(id, "the history only grows", `${before.events} events became ${after.events}`);
  if (after.expiresAtNs < before.expiresAtNs)
    violate(id, "a renewal is kept", `${before.expiresAtNs} became ${after.expiresAtNs}`);
}

/** An active lease has its objects in the cluster until it ends, also when it took them over. */
function checkObjects({ leaseObjects }: World, record: LeaseRecord, violate: Violate): void {
  const { id, run } = getOrigin(record);
  if (!IN_CLUSTER.has(record.order.type) || leaseObjects.made.has(`${id}-${run}`)) return;
  violate(record.order.id, "an active lease has its objects", `${id}-${run} is missing`);
}

function checkCapacity(world: World, violate: Violate): void {
  const find = (id: string): LeaseRecord | undefined => findLease(world, id);
  const { cru } = sumHeldUnits(
    listLeases(world).filter((record) => findWorkload(record, find) !== undefined),
    {},
  );
  const maxCru = ENGINE.capacity.cru ?? 0n;
  if (cru > maxCru) violate(undefined, "leases stay within the capacity", `${cru} of ${maxCru} processors`);
}

/** A process has one call per lease at a time. An aborted call may overlap the next one until it sees its signal. */
function watchCalls(violate: Violate): WatchWorkload {
  const inFlight = new Map<string, AbortSignal>();
  return (process, workload) => {
    const alone =
      <Result>(doing: string, work: (lease: LeaseRecord, signal: AbortSignal) => Promise<Result>) =>
      async (lease: LeaseRecord, signal: AbortSignal): Promise<Result> => {
        const { id } = lease.order;
        const key = `${process} ${id}`;
        if (inFlight.get(key)?.aborted === false)
          violate(
            id,
            "no lease is provisioned twice concurrently",
            `${process} has two calls for it; the later is ${doing}`,
          );
        inFlight.set(key, signal);
        try {
          return await work(lease, signal);
        } finally {
          if (inFlight.get(key) === signal) inFlight.delete(key);
        }
      };
    const { type, provision, decommission, check } = workload;
    return {
      type,
      provision: alone("provision", provision),
      decommission: alone("decommission", decommission),
      ...(check && { check: alone("check", check) }),
    };
  };
}

/** Checks the lease's objects in the cluster and its reservations. Objects of late requests from a deposed leader may exist until clean-up finds them. */
function watchObjects(world: World, violate: Violate): { mustBeGone(record: LeaseRecord): void } {
  const inTime = new Map<string, { readonly lease: string; readonly run: number }>();
  const recordMade = (name: string, lease: string, run: number): void => {
    const record = findLease(world, lease);
    if (record?.run !== run || (record.phase !== "PROVISIONING" && record.phase !== "ACTIVE")) {
      // The object that was created in time under this name is gone.
      inTime.delete(name);
      return;
    }
    for (const [other, each] of inTime)
      if (each.lease === lease && each.run !== run && exists(other))
        violate(lease, "no lease is provisioned twice concurrently", `${name} is made while ${other} exists`);
    inTime.set(name, { lease, run });
  };
  const reserved = new Set<string>();
  const exists = (name: string): boolean => world.leaseObjects.made.has(name) || reserved.has(name);
  world.leaseObjects.onMake.push(({ lease, run }) => recordMade(`${lease}-${run}`, lease, run));
  const owners = new Map<number, string>();
  world.ledger.onEntry.push((events) => {
    for (const event of events) {
      if (event.kind === "requested" && event.reservation.owner.kind === OWNER_KIND) {
        const { owner, sequence } = event.reservation;
        const lease = parseLeaseOwner(owner.id);
        owners.set(sequence, owner.id);
        reserved.add(owner.id);
        if (lease !== undefined) recordMade(owner.id, lease.id, lease.run);
      }
      if (event.kind === "released") {
        const owner = owners.get(event.sequence);
        if (owner !== undefined) reserved.delete(owner);
      }
    }
  });
  return {
    mustBeGone: (record) => {
      if (record.heir !== undefined) return;
      const { phase } = record;
      const { id } = getOrigin(record);
      for (const [name, { lease }] of inTime)
        if (lease === id && exists(name)) violate(id, "nothing is left of an ended lease", `${name} exists: ${phase}`);
    },
  };
}

/** Returns since when one leader has led, no dependency was unreachable and no message was lost. */
function watchUndisturbed(world: World): () => number {
  const { time, weather, leaseLock, leases } = world;
  let sinceMs = Infinity;
  let token = 0;
  let clockOffsetMs = 0;
  const poll = (): void => {
    const { holder } = leaseLock;
    const leads = holder?.alive === true && holder.frozenUntilMs <= time.nowMs && leaseLock.token === token;
    const isWatching = [...leases.watches].every(({ process, interrupted }) => process !== holder || !interrupted);
    const isSet = holder?.clockOffsetMs !== clockOffsetMs;
    const isCalm = leads && isWatching && !isSet && weather.risks === CALM && weather.away.size === 0;
    sinceMs = isCalm ? Math.min(sinceMs, time.nowMs) : Infinity;
    token = leaseLock.token;
    clockOffsetMs = holder?.clockOffsetMs ?? 0;
    time.after(POLL_MS, undefined, poll);
  };
  poll();
  return () => sinceMs;
}

function expectEnd(
  world: World,
  { order, expiresAtNs }: LeaseRecord,
  calmSinceMs: () => number,
  violate: Violate,
): void {
  const { time, leaseLock } = world;
  const checkAtMs = Number(expiresAtNs / 1_000_000n) - MAX_CLOCK_SKEW_MS;
  time.after(checkAtMs - time.nowMs, undefined, () => {
    // The leader's clock decides when the lease ends. A later change of the leader is not calm. A slow write may create a lease after its end.
    const endMs = Math.max(time.nowMs, checkAtMs + MAX_CLOCK_SKEW_MS - (leaseLock.holder?.clockOffsetMs ?? 0));
    time.after(endMs + ENDS_WITHIN_MS - time.nowMs, undefined, () => {
      const now = findLease(world, order.id);
      if (now?.expiresAtNs !== expiresAtNs || !isRunning(now) || calmSinceMs() > endMs - SETTLE_MS) return;
      violate(order.id, "its decommission starts within a second of its end", `${now.phase}, ${now.trouble}`);
    });
  });
}

function judgeRecords(world: World, results: ReadonlySet<string>, violate: Violate): void {
  const answers = readAll(world, streams.events.name, subjects.anyLeaseAnswered, (payload) => {
    const { id, result, deleted } = muster.provision.v1.LeaseAnswered.decode(payload);
    const signature = result?.signature ?? undefined;
    return { id, signature: signature && formatHex(signature), deleted };
  });
  const history = readAll(world, streams.audit.name, subjects.anyLeaseAudited, (payload) =>
    muster.provision.v1.LeaseEvent.decode(payload),
  );
  for (const { order, phase, feedback, result, outbox, events } of listLeases(world)) {
    const { id } = order;
    if (phase !== "ENDED" && phase !== "FAILED") violate(id, "every lease ends", phase);
    const { result: isResult, deleted: isDeleted, attempts } = feedback;
    if (isResult || isDeleted || outbox.length > 0) {
      const unsent = [...(isResult ? ["its result"] : []), ...(isDeleted ? ["its end"] : [])];
      const pending = `${outbox.length} events; ${unsent.join(", ")} after ${attempts} attempts`;
      violate(id, "every answer and event is sent in the end", pending);
    }
    const own = answers.filter((each) => each.id === id);
    const requiredSignature = result?.state === "error" ? formatHex(result.signature) : undefined;
    const agrees =
      own.some(({ deleted }) => deleted) &&
      own.every(({ signature }) => signature === undefined || results.has(signature)) &&
      (requiredSignature === undefined || own.some(({ signature }) => signature === requiredSignature));
    if (!agrees) violate(id, "its answers agree with the record", `${own.length} answers, ${result?.state ?? ""}`);
    const published = new Set(history.filter(({ lease }) => lease === id).map(({ id: event }) => event)).size;
    if (published !== events)
      violate(id, "its history agrees with the record", `${published} events are published of ${events}`);
  }
}

function formatHex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}

function readAll<Read>(world: World, stream: string, subject: string, read: (payload: Uint8Array) => Read): Read[] {
  const all: Read[] = [];
  for (let from = 1; ;) {
    const message = world.bus.memory.streams.get(stream)?.next(subject, from);
    if (message === undefined) return all;
    all.push(read(message.payload));
    from = message.sequence + 1;
  }
}

function judgeLeftovers(world: World, violate: Violate): void {
  for (const [name, { lease }] of world.leaseObjects.made)
    violate(lease, "nothing is left", `${name} is in the cluster`);
  for (const { owner, sequence } of getLedger(world).reservations.values())
    violate(undefined, "nothing is left", `${getReservationId(sequence)} of ${owner.id} is in the ledger`);
  const waiting = world.bus.memory.streams.get(streams.leaseOrders.name)?.state().messages ?? 0;
  if (waiting > 0) violate(undefined, "nothing is left", `${waiting} orders wait`);
}

import { retryOnConflict } from "@muster/backoff";
import { throwFault, unlessFault, type FaultCode } from "@muster/faults";
import type { EndRequest, Order, Renewal } from "@muster/leases";
import { getTraceparent } from "@muster/tracing";
import type { LeaseRecords, StoredLease } from "../holdings/records.ts";
import {
  decideOrder,
  refuseOrder,
  type OrderContext,
  type OrderPolicy,
  type OrderVerdict,
} from "../domain/decide-order.ts";
import {
  decideQuota,
  countPromisedBytes,
  recordBytes,
  countRegainedBytes,
  type QuotaPolicy,
  type UserUsage,
} from "../domain/decide-quota.ts";
import { decideEnd, decideRenewal, decideWithdrawal, type RequestVerdict } from "../domain/decide-request.ts";
import type { LeaseRecord } from "../domain/lease.ts";
import type { ComputeDigest, VerifySignature } from "../domain/signed-content.ts";
import { transitionLease } from "../domain/transition-lease.ts";
import type { LeaseChange } from "../domain/lease-change.ts";
import type { LeaseRegistry } from "../holdings/lease-registry.ts";
import { recordDecision } from "../lead/lease-trace.ts";

/** Dependencies of user requests, which any replica answers. */
export type RequestDeps = {
  readonly records: Pick<LeaseRecords, "get" | "create" | "change">;
  readonly holdings: Pick<LeaseRegistry, "usageOf" | "reserveUsage" | "learn" | "seen">;
  readonly nowNs: () => bigint;
  readonly verify: VerifySignature;
  readonly digest: ComputeDigest;
  readonly policy: OrderPolicy;
  readonly quota: QuotaPolicy;
};

type OrderRequest = {
  readonly order: Order;
  readonly requestId: string;
  readonly source: string;
  /** Decides about the request without a write. */
  readonly dryRun: boolean;
};

export type OrderResult =
  | { readonly kind: "taken"; readonly stored: StoredLease; readonly outcome: "ORDERED" | "RESENT" | "RETRIED" }
  | Extract<OrderVerdict, { readonly kind: "refuse" }>;

/** Another writer was first. */
const RACE: readonly FaultCode[] = ["conflict", "already_exists"];

/** Records an order, or sends its answer again. */
export async function takeOrder(deps: RequestDeps, request: OrderRequest): Promise<OrderResult> {
  const { records, holdings } = deps;
  const { order, dryRun } = request;
  // Most orders are new, which a successful creation of the record proves without a read.
  if (!dryRun && holdings.seen(order.id) === undefined) {
    const verdict = decide(deps, request, undefined);
    if (verdict.kind === "create") {
      const created = await unlessFault(create(deps, verdict), ...RACE);
      if (created !== undefined) return created;
    }
  }
  const write = async (): Promise<OrderResult> => {
    const stored = await records.get(order.id);
    const verdict = decide(deps, request, stored?.record);
    if (verdict.kind === "refuse") return verdict;
    if (verdict.kind === "create") {
      if (dryRun) return { kind: "taken", stored: { record: verdict.record, revision: 0 }, outcome: "ORDERED" };
      return create(deps, verdict);
    }
    if (stored === undefined) return throwFault({ code: "not_found", kind: "lease", id: order.id });
    using _reserved = reserve(deps, order, verdict, stored);
    const changed = await change(deps, stored, verdict.change, request);
    const retried = stored.record.phase === "FAILED" && changed.record.phase === "ORDERED";
    return { kind: "taken", stored: changed, outcome: retried ? "RETRIED" : "RESENT" };
  };
  // Decides within the write, so that the usage is reserved before another order is decided.
  return retryOnConflict(`lease ${order.id}`, () => ({ write }), { codes: RACE });
}

async function create(deps: RequestDeps, verdict: Extract<OrderVerdict, { kind: "create" }>): Promise<OrderResult> {
  using _reserved = reserve(deps, verdict.record.order, verdict, undefined);
  const created = await deps.records.create(verdict.record);
  deps.holdings.learn(created);
  return { kind: "taken", stored: created, outcome: "ORDERED" };
}

function decide(
  deps: RequestDeps,
  { order, source, requestId }: OrderRequest,
  stored: LeaseRecord | undefined,
): OrderVerdict {
  const { nowNs, verify, digest, policy } = deps;
  const context: OrderContext = { nowNs: nowNs(), verify, digest, source, requestId, traceparent: getTraceparent() };
  return recordDecision(withinQuota(deps, order, decideOrder(order, stored, context, policy), stored));
}

/** Refuses an order that would exceed the limits of its user. Writes in flight in other replicas are not counted. */
function withinQuota(
  { holdings, quota }: RequestDeps,
  order: Order,
  verdict: OrderVerdict,
  stored: LeaseRecord | undefined,
): OrderVerdict {
  const added = addedUsage(order, verdict, stored);
  if (added === undefined) return verdict;
  const fault = decideQuota(order.user, added, holdings.usageOf(order.user, order.id), quota);
  return fault === undefined ? verdict : refuseOrder(fault, "error");
}

/** Reserves the usage that the verdict adds while it is being written; call it before any other order is decided. */
function reserve(
  { holdings }: RequestDeps,
  order: Order,
  verdict: OrderVerdict,
  stored: StoredLease | undefined,
): Disposable | undefined {
  const added = addedUsage(order, verdict, stored?.record);
  return added && holdings.reserveUsage({ id: order.id, user: order.user, revision: stored?.revision ?? 0, added });
}

/** The usage that the verdict adds. Of existing leases, only a failed one starts another run. */
function addedUsage({ data }: Order, verdict: OrderVerdict, stored: LeaseRecord | undefined): UserUsage | undefined {
  if (verdict.kind === "create")
    return { leases: 1, bytes: recordBytes(verdict.record) + countPromisedBytes(verdict.record) };
  if (verdict.kind === "change" && stored?.phase === "FAILED")
    return { leases: 1, bytes: countRegainedBytes(stored, { data }) };
  return undefined;
}

export function renewLease(deps: RequestDeps, requestId: string, renewal: Renewal): Promise<StoredLease> {
  return changeLease(deps, { id: renewal.id, requestId }, (record) =>
    decideRenewal(renewal, record, { nowNs: deps.nowNs(), verify: deps.verify }, deps.policy),
  );
}

export function endLease(deps: RequestDeps, requestId: string, request: EndRequest): Promise<StoredLease> {
  return changeLease(deps, { id: request.id, requestId }, (record) =>
    decideEnd(request, record, { nowNs: deps.nowNs(), verify: deps.verify }, deps.policy),
  );
}

/** Ends a lease on behalf of the source of its order. */
export function withdrawOrder(deps: RequestDeps, id: string, source: string): Promise<StoredLease> {
  return changeLease(deps, { id, requestId: "" }, (record) => decideWithdrawal(id, source, record));
}

/** The record stored now. Rejects with not_found. */
export async function requireLease({ records }: Pick<RequestDeps, "records">, id: string): Promise<StoredLease> {
  return (await records.get(id)) ?? throwFault({ code: "not_found", kind: "lease", id });
}

function changeLease(
  deps: RequestDeps,
  { id, requestId }: { readonly id: string; readonly requestId: string },
  decide: (record: LeaseRecord | undefined) => RequestVerdict,
): Promise<StoredLease> {
  return retryOnConflict(`lease ${id}`, async () => {
    const stored = await deps.records.get(id);
    const verdict = recordDecision(decide(stored?.record));
    if (verdict.kind === "refuse") return throwFault(verdict.fault);
    if (stored === undefined) return throwFault({ code: "not_found", kind: "lease", id });
    if (verdict.kind === "nothing") return { unchanged: stored };
    return { write: () => change(deps, stored, verdict.change, { requestId, dryRun: false }) };
  });
}

async function change(
  { records, holdings, nowNs }: RequestDeps,
  stored: StoredLease,
  requested: LeaseChange,
  { requestId, dryRun }: { readonly requestId: string; readonly dryRun: boolean },
): Promise<StoredLease> {
  // The change belongs to the trace of the request, and later work of the engine to the trace of the order.
  const trace = stored.record.traceparent || getTraceparent();
  const asked = { ...stored.record, requestId, traceparent: getTraceparent() || trace };
  const changed = transitionLease(asked, requested, nowNs()).next;
  if (changed === undefined) return stored;
  const next = { ...changed, traceparent: trace };
  if (dryRun) return { ...stored, record: next };
  const written = await records.change(stored, next);
  holdings.learn(written);
  return written;
}

import { takeTurns, within, type Clock } from "@muster/backoff";
import type { Result } from "@muster/leases";
import type { View } from "@muster/store";
import type { CrashWatch, HintDeps, WaitingLeases } from "./wake-leases.ts";
import type { LeaseHistory, LeaseRecords, StoredValue, StoredLease } from "../holdings/records.ts";
import type { CallPauses } from "./call-pauses.ts";
import { callWorkloads, type WorkloadCalls } from "./call-workload.ts";
import { mayHoldResources, type LeaseRecord } from "../domain/lease.ts";
import { toReferenced } from "../domain/decide-take-over.ts";
import type { ReferencedLease } from "../domain/claim.ts";
import type { ComputeDigest } from "../domain/signed-content.ts";
import type { FeedbackPolicy } from "../domain/plan-feedback.ts";
import { takeSnapshot, type LeaseSnapshot, type LeasePlan } from "../domain/plan-lease.ts";
import { readClaim } from "../types/workload-types.ts";
import type { LeaseRegistry } from "../holdings/lease-registry.ts";
import type { OrderSecrets } from "../holdings/order-secrets.ts";
import { writeDuringCall, type PassDeps, type PassPolicy, type WriteDeps } from "./pass.ts";
import type { ReportDeps } from "./report-lease.ts";
import type { Workload } from "../types/workload.ts";
import type { OrderAges } from "../domain/decide-order.ts";

/** `OrderAges` are the maximum ages of orders: a lease that is over is remembered until its order would be refused. */
export type EnginePolicy = OrderAges & {
  readonly pass: PassPolicy;
  readonly feedback: FeedbackPolicy;
  /** Maximum concurrent calls of provisioners, and separately of decommissioners, so that hanging provisioners delay no end. */
  readonly parallel: number;
  /** Time limit of one call. */
  readonly deadlineMs: number;
  /** Average interval between checks of an active lease. */
  readonly recheckMs: number;
};

/** Dependencies of an engine. */
export type EngineOps = {
  /** Id of this engine; leases of other engines are ignored. */
  readonly engine: string;
  readonly view: Pick<View<StoredValue>, "get" | "entries" | "onChange">;
  readonly records: LeaseRecords;
  readonly history: Pick<LeaseHistory, "publish">;
  readonly feedback: ReportDeps["feedback"];
  readonly holdings: LeaseRegistry;
  readonly workloads: ReadonlyMap<string, Workload>;
  readonly secrets: OrderSecrets;
  readonly crashes: CrashWatch;
  readonly grants: HintDeps["grants"];
  readonly sign: (result: Omit<Result, "signature">) => Result;
  readonly digest: ComputeDigest;
  readonly nowNs: () => bigint;
  /** Times retries and the resync. Default: the machine's own. */
  readonly clock?: Clock;
  readonly policy: EnginePolicy;
  readonly report: {
    /** A failed call or write that is retried; `what` is one of a few fixed words. */
    failed(id: string, what: string, error: unknown): void;
    defect(id: string, error: unknown): void;
    /** The next step of a lease, with all inputs of the decision. */
    planned(snapshot: LeaseSnapshot, plan: LeasePlan, nowNs: bigint): void;
    /** Resources of the lease cannot be removed, or its end cannot be written. */
    stuck(record: LeaseRecord): void;
  };
};

/** The lead of an engine id. */
export type EngineLead = {
  readonly token: number;
  /** Aborted when the lead may be lost, and at a stop. */
  readonly signal: AbortSignal;
  /** Aborted only when the lead may be lost. */
  readonly lost: AbortSignal;
  readonly isHeld: () => boolean;
};

/** Maximum concurrent requests to the store, so that many simultaneous ends do not time out together. */
const MAX_STORE_CALLS = 128;
/** Maximum time that a write of a lease's history waits for the answer of its source. */
const MAX_ANSWER_WAIT_MS = 1000;
/** The dependencies of passes. */
export function buildPassDeps(
  ops: EngineOps,
  lead: EngineLead,
  waiting: WaitingLeases,
  pauses: CallPauses,
): PassDeps & Pick<WorkloadCalls, "cancel" | "check"> {
  const { holdings, nowNs, workloads, secrets, policy, report, sign, digest } = ops;
  const { seen } = holdings;
  const store = openStore(ops, lead);
  const recordAs =
    (kind: "waiting" | "lost") =>
    (record: LeaseRecord, message: string): Promise<void> =>
      writeDuringCall(store, record, { kind, message });
  const calls = callWorkloads({
    workloads,
    secrets,
    nowNs,
    parallel: policy.parallel,
    deadlineMs: policy.deadlineMs,
    read: store.read,
    seen,
    recordWait: recordAs("waiting"),
    recordLoss: recordAs("lost"),
    isHeld: lead.isHeld,
    // A call may wait for minutes, and the next leader's call finds its objects, so a stop ends the call.
    signal: lead.signal,
    defect: report.defect,
  });
  return {
    ...store,
    ...calls,
    seen,
    pauses,
    sign,
    digest,
    isSame: secrets.isSame,
    snapshotOf: (record) => buildSnapshot(ops, pauses, record),
    holdingsRevision: holdings.revision,
    planned: (snapshot, plan, nowNs) => {
      const { id } = snapshot.lease;
      waiting.set(id, plan.kind === "wait" ? plan.waitsFor : undefined);
      // A workload that is taken over is counted already.
      if (plan.kind === "change" && plan.change.kind === "provisioning" && plan.change.takesOver === undefined)
        holdings.begin(id);
      report.planned(snapshot, plan, nowNs);
    },
  };
}

/** The store while the lead is held. The holdings know each record that is read or written. */
function openStore(
  { records, holdings, nowNs }: EngineOps,
  { token, isHeld }: EngineLead,
): WriteDeps & Pick<PassDeps, "remove"> {
  const store = takeTurns(MAX_STORE_CALLS);
  const learn = (stored: StoredLease): StoredLease => {
    holdings.learn(stored);
    return stored;
  };
  const whileHeld = <Result>(work: () => Promise<Result>): Promise<Result> =>
    store(async () => {
      if (!isHeld()) throw new DOMException("the lead is lost", "AbortError");
      return work();
    });
  return {
    fence: token,
    now: nowNs,
    read: (id) =>
      store(async () => {
        const stored = await records.get(id);
        return stored && learn(stored);
      }),
    write: (stored, next) => whileHeld(async () => learn(await records.own(stored, next, token))),
    remove: (stored) => whileHeld(() => records.remove(stored)),
  };
}

function buildSnapshot(ops: EngineOps, pauses: CallPauses, record: LeaseRecord): LeaseSnapshot {
  const { workloads, holdings, crashes, policy } = ops;
  const seen = {
    claim: readClaim(record.order),
    isServed: workloads.has(record.order.type),
    around: holdings.around(record.order),
    reference: findReferencedLease(ops, record),
    exits: crashes.exitsOf(record),
    keptFor: keptFor(ops, record),
  };
  return takeSnapshot(pauses.withPause(record), seen, policy);
}

/** The lease that an order refers to, if the order has not begun yet. */
export function findReferencedLease(
  { holdings, view, secrets }: Pick<EngineOps, "view" | "secrets"> & { readonly holdings: Pick<LeaseRegistry, "find"> },
  { order, phase }: LeaseRecord,
): ReferencedLease | undefined {
  const { reference } = order;
  if (reference === undefined || phase !== "ORDERED") return undefined;
  const seen = view.get(reference)?.value;
  if (seen !== undefined && !("record" in seen)) return { kind: "unreadable", id: reference };
  // Prefer `holdings`, because the view may lag behind this process's own writes. The view is the only source for leases of other engines.
  const found = holdings.find(reference) ?? seen?.record;
  return found && toReferenced(order, found, secrets.isSame(order, found.order));
}

function keptFor({ holdings }: EngineOps, { heir }: LeaseRecord): string | undefined {
  const found = heir === undefined ? undefined : holdings.find(heir);
  return found !== undefined && (mayHoldResources(found.phase) || found.heir !== undefined) ? heir : undefined;
}

/** The dependencies of reports. */
export function buildReportDeps(
  { records, holdings, history, feedback, sign, digest, nowNs, policy, report }: EngineOps,
  { token }: EngineLead,
  wake: ReportDeps["wake"],
): ReportDeps {
  const store = takeTurns(MAX_STORE_CALLS);
  return {
    records: {
      get: (id) => store(() => records.get(id)),
      own: (...change) =>
        store(async () => {
          const stored = await records.own(...change);
          holdings.learn(stored);
          return stored;
        }),
    },
    seen: holdings.seen,
    history: { publish: (events) => store(() => history.publish(events)) },
    feedback,
    sign,
    digest,
    nowNs,
    policy: policy.feedback,
    fence: token,
    isInTime: (answered) => within(MAX_ANSWER_WAIT_MS, answered),
    wake,
    failed: (id, error) => report.failed(id, "feedback", error),
  };
}

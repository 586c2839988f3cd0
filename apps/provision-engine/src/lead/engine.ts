import { once } from "node:events";
import { takeTurns, within } from "@muster/backoff";
import type { Result } from "@muster/leases";
import type { View } from "@muster/store";
import { type CrashWatch, followHints, type HintDeps, waitingLeases, type WaitingLeases } from "./wake-leases.ts";
import type { History, Records, Readable, Stored } from "../holdings/records.ts";
import { callPauses, type CallPauses } from "./call-pauses.ts";
import { callWorkloads, type WorkloadCalls } from "./call-workload.ts";
import { checkLease, openChecks, type Checks } from "./check-lease.ts";
import { mayHoldResources, type LeaseRecord } from "../domain/lease.ts";
import { decideAlert, isStuck } from "../domain/decide-retry.ts";
import { toReferenced } from "../domain/decide-take-over.ts";
import type { Referenced } from "../domain/surroundings.ts";
import type { Digest } from "../domain/signed-content.ts";
import { planReport, type FeedbackPolicy } from "../domain/plan-feedback.ts";
import { takeSnapshot, type LeaseSnapshot, planLease, type LeasePlan } from "../domain/plan-lease.ts";
import { readClaim, sortByRank } from "../types/workload-types.ts";
import type { Holdings } from "../holdings/holdings.ts";
import { requeueAfter, startLeaseController, type LeaseController } from "./lease-controller.ts";
import type { OrderSecrets } from "../holdings/order-secrets.ts";
import { writeDuringCall, leasePasses, type PassDeps, type PassPolicy } from "./pass.ts";
import { openReporter, type ReportDeps } from "./report-lease.ts";
import type { Workload } from "../types/workload.ts";
import type { OrderAges } from "../domain/decide-order.ts";

/** `OrderAges` are those of orders: a lease that is over is remembered until its order would be refused. */
export type EnginePolicy = OrderAges & {
  readonly pass: PassPolicy;
  readonly feedback: FeedbackPolicy;
  /** Maximum concurrent calls of provisioners, and separately of decommissioners: hanging provisioners delay no end. */
  readonly parallel: number;
  /** Of one call. */
  readonly deadlineMs: number;
  /** Average interval between checks of an active lease. */
  readonly recheckMs: number;
};

/** Dependencies of an engine. */
export type EngineOps = {
  /** Its id; leases of other engines are ignored. */
  readonly engine: string;
  readonly view: Pick<View<Readable>, "get" | "entries" | "onChange">;
  readonly records: Records;
  readonly history: Pick<History, "publish">;
  readonly feedback: ReportDeps["feedback"];
  readonly holdings: Holdings;
  readonly workloads: ReadonlyMap<string, Workload>;
  readonly secrets: OrderSecrets;
  readonly crashes: CrashWatch;
  readonly grants: HintDeps["grants"];
  readonly sign: (result: Omit<Result, "signature">) => Result;
  readonly digest: Digest;
  readonly nowNs: () => bigint;
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
export type Lead = { readonly token: number; readonly signal: AbortSignal; readonly isHeld: () => boolean };

/** Maximum concurrent requests to the store, so that many simultaneous ends do not time out together. */
const MAX_STORE_CALLS = 128;
/** Maximum time that a write of a lease's history waits for the answer of its source. */
const MAX_ANSWER_WAIT_MS = 1000;
/** Leases processed before the event loop runs other work. */
const BATCH_SIZE = 200;

/** Provisions and decommissions leases as their records say, and reports them, while the lead is held. */
export async function runEngine(ops: EngineOps, lead: Lead): Promise<void> {
  const { view, nowNs, policy, report } = ops;
  const stop = new AbortController();
  const signal = AbortSignal.any([lead.signal, stop.signal]);
  const own = { ...lead, signal };
  const waiting = waitingLeases();
  const { retry } = policy.pass;
  const pauses = callPauses(retry);
  const pass = passDepsOf(ops, own, waiting, pauses);
  const checks = openChecks(policy.recheckMs, Math.random);
  const alerts = openAlerts(ops);
  const passes = startPasses(ops, pass, checks, own, alerts);
  const reporter = openReporter(reportDepsOf(ops, lead, (id) => reports.add(id)));
  const reports: LeaseController = startLeaseController({
    name: "lease-feedback",
    reconcile: async (id) => requeueAfter(await reporter.report(id), nowNs()),
    nowNs,
    retry,
    failed: (id, error) => report.failed(id, "history", error),
    lead: own,
  });

  const { observe, forget } = trackLeases(ops, { pass, passes, reports, waiting, checks, alerts, pauses });
  const events = deferEvents();
  const stopFollowing = view.onChange((id) =>
    events.run(`change of ${id}`, () => {
      const entry = view.get(id);
      if (entry === undefined) forget(id);
      else if (isOwn(ops, entry.value)) observe({ record: entry.value.record, revision: entry.revision });
    }),
  );
  const wakeOwn = (id: string): void =>
    events.run(`hint of ${id}`, () => {
      const entry = view.get(id);
      // A lease that is not in the view yet is processed when it appears.
      if (entry !== undefined && isOwn(ops, entry.value)) passes.add(id);
    });
  const stopHints = followHints(ops, { checks, pauses, wake: wakeOwn });
  try {
    const all = await loadAll(ops);
    events.flush();
    await observeAll(ops, all, observe, signal);
    if (!signal.aborted) await once(signal, "abort");
  } finally {
    stopFollowing();
    stopHints();
    stop.abort();
    await Promise.all([passes.done, reports.done]);
    await reporter.settled();
  }
}

type TrackDeps = {
  readonly pass: Pick<PassDeps, "snapshotOf"> & Pick<WorkloadCalls, "cancel">;
  readonly passes: LeaseController;
  readonly reports: LeaseController;
  readonly waiting: WaitingLeases;
  readonly checks: Checks;
  readonly alerts: Alerts;
  readonly pauses: CallPauses;
};

/** Tracks changes of leases and schedules their next passes and reports. */
function trackLeases(
  { holdings, nowNs, policy }: EngineOps,
  { pass, passes, reports, waiting, checks, alerts, pauses }: TrackDeps,
): { readonly observe: (stored: Stored) => void; readonly forget: (id: string) => void } {
  const wakeAfter = (changed: Parameters<WaitingLeases["helpedBy"]>[0]): void => {
    for (const each of waiting.helpedBy(changed)) passes.add(each);
  };
  return {
    observe: (stored) => {
      const { record } = stored;
      alerts.check(record);
      const { id } = record.order;
      holdings.learn(stored);
      pass.cancel(record);
      if (record.phase !== "PROVISIONING") pauses.clear(id);
      wakeAfter({ id, isOver: !mayHoldResources(record.phase) });
      const plan = planLease(pass.snapshotOf(record), policy.pass, nowNs());
      if (plan.kind === "wait" && plan.waitsFor === undefined) {
        waiting.set(id, undefined);
        passes.addAt(id, plan.untilNs);
        passes.addAt(id, checks.next(record, nowNs()));
      } else passes.add(id);
      const reporting = planReport(record, plan.kind !== "wait", nowNs());
      if (reporting.kind === "now") reports.add(id);
      else reports.addAt(id, reporting.kind === "later" ? reporting.untilNs : undefined);
    },
    forget: (id) => {
      alerts.forget(id);
      holdings.forget(id);
      checks.forget(id);
      pauses.clear(id);
      waiting.set(id, undefined);
      wakeAfter({ id, isOver: true });
    },
  };
}

/**
 * Defers events until the records of all leases are loaded. A view that is still catching up shows outdated leases, and objects created for a lease that has
 * ended since would have no owner.
 */
function deferEvents(): { readonly run: (what: string, act: () => void) => void; readonly flush: () => void } {
  let waiting: Map<string, () => void> | undefined = new Map();
  return {
    run: (what, act) => {
      if (waiting === undefined) act();
      else waiting.set(what, act);
    },
    flush: () => {
      const deferred = waiting ?? [];
      waiting = undefined;
      for (const [, act] of deferred) act();
    },
  };
}

/** Loads all records from the store, because the view may be behind the writes of the previous leader. */
async function loadAll(ops: EngineOps): Promise<Stored[]> {
  const all = (await ops.records.list()).filter(({ record }) => isOwn(ops, { record }));
  await forEachYielding(all, (stored) => ops.holdings.learn(stored));
  return all;
}

/** Observes the newer of the stored and the viewed record of each lease: changes before the view was followed were not observed. */
async function observeAll(
  ops: EngineOps,
  all: readonly Stored[],
  observe: (stored: Stored) => void,
  signal: AbortSignal,
): Promise<void> {
  const newest = new Map(all.map((stored) => [stored.record.order.id, stored]));
  for (const { key, value, revision } of ops.view.entries())
    if (isOwn(ops, value) && (newest.get(key)?.revision ?? 0) < revision)
      newest.set(key, { record: value.record, revision });
  await forEachYielding(
    sortByRank([...newest.values()], ({ record }) => record.order.type),
    (stored) => {
      // Changes since then were observed when they arrived.
      if (!signal.aborted && (ops.view.get(stored.record.order.id)?.revision ?? 0) <= stored.revision) observe(stored);
    },
  );
}

function startPasses(
  { view, nowNs, policy, report }: EngineOps,
  pass: PassDeps & Pick<WorkloadCalls, "check">,
  checks: Checks,
  lead: Lead,
  alerts: Alerts,
): LeaseController {
  const reconcile = leasePasses(pass, policy.pass);
  const passes: LeaseController = startLeaseController({
    name: "lease",
    reconcile: async (id, signal) => {
      if (checks.isDue(id, nowNs())) checks.done(id, await checkLease(pass, id), nowNs());
      const next = await reconcile(id, signal);
      passes.addAt(id, checks.scheduled(id));
      return next;
    },
    nowNs,
    retry: policy.pass.retry,
    failed: (id, error) => {
      report.failed(id, "pass", error);
      const value = view.get(id)?.value;
      if (value !== undefined && "record" in value) alerts.check(value.record);
    },
    lead,
  });
  return passes;
}

type Alerts = { readonly check: (record: LeaseRecord) => void; readonly forget: (id: string) => void };

/** Alerts the operator repeatedly about leases that cannot be removed. */
function openAlerts({ nowNs, report }: EngineOps): Alerts {
  /** Time of the last alert by lease. */
  const alerted = new Map<string, bigint>();
  return {
    check: (record) => {
      const { id } = record.order;
      const atNs = nowNs();
      if (!isStuck(record, atNs)) alerted.delete(id);
      if (!decideAlert(record, alerted.get(id), atNs)) return;
      alerted.set(id, atNs);
      report.stuck(record);
    },
    forget: (id) => {
      alerted.delete(id);
    },
  };
}

function isOwn({ engine }: EngineOps, value: Readable): value is { readonly record: LeaseRecord } {
  return "record" in value && value.record.order.engine === engine;
}

function passDepsOf(
  ops: EngineOps,
  { token, signal, isHeld }: Lead,
  waiting: WaitingLeases,
  pauses: CallPauses,
): PassDeps & Pick<WorkloadCalls, "cancel" | "check"> {
  const { records, holdings, nowNs, workloads, secrets, policy, report, sign, digest } = ops;
  const store = takeTurns(MAX_STORE_CALLS);
  const learn = (stored: Stored): Stored => {
    holdings.learn(stored);
    return stored;
  };
  const { parallel, deadlineMs } = policy;
  const { defect } = report;
  const read: PassDeps["read"] = (id) =>
    store(async () => {
      const stored = await records.get(id);
      return stored && learn(stored);
    });
  const write: PassDeps["write"] = (stored, next) =>
    store(async () => {
      if (!isHeld()) throw new DOMException("the lead is lost", "AbortError");
      return learn(await records.own(stored, next, token));
    });
  const storeDeps = { fence: token, now: nowNs, read, write };
  const recordWait = (record: LeaseRecord, message: string): Promise<void> =>
    writeDuringCall(storeDeps, record, { kind: "waiting", message });
  const recordLoss = (record: LeaseRecord, message: string): Promise<void> =>
    writeDuringCall(storeDeps, record, { kind: "lost", message });
  const { seen } = holdings;
  const calls = {
    workloads,
    secrets,
    nowNs,
    parallel,
    deadlineMs,
    read,
    seen,
    recordWait,
    recordLoss,
    isHeld,
    signal,
    defect,
  };
  return {
    ...storeDeps,
    seen,
    remove: (stored) =>
      store(async () => {
        if (!isHeld()) throw new DOMException("the lead is lost", "AbortError");
        await records.remove(stored);
      }),
    snapshotOf: (record) =>
      takeSnapshot(
        pauses.withPause(record),
        {
          claim: readClaim(record.order),
          isServed: workloads.has(record.order.type),
          around: holdings.around(record.order),
          reference: referencedBy(ops, record),
          exits: ops.crashes.exitsOf(record),
          keptFor: keptFor(ops, record),
        },
        policy,
      ),
    planned: (snapshot, plan, nowNs) => {
      const { id } = snapshot.lease;
      waiting.set(id, plan.kind === "wait" ? plan.waitsFor : undefined);
      // A workload that is taken over is counted already.
      if (plan.kind === "change" && plan.change.kind === "provisioning" && plan.change.takesOver === undefined)
        holdings.begin(id);
      report.planned(snapshot, plan, nowNs);
    },
    ...callWorkloads(calls),
    pauses,
    sign,
    isSame: secrets.isSame,
    digest,
  };
}

/** The lease that an order refers to, if the order has not begun yet. */
export function referencedBy(
  { holdings, view, secrets }: Pick<EngineOps, "view" | "secrets"> & { readonly holdings: Pick<Holdings, "find"> },
  { order, phase }: LeaseRecord,
): Referenced | undefined {
  const { reference } = order;
  if (reference === undefined || phase !== "ORDERED") return undefined;
  const seen = view.get(reference)?.value;
  if (seen !== undefined && !("record" in seen)) return { kind: "unreadable", id: reference };
  // The view may lack this process's own writes; for other engines only the view is known.
  const found = holdings.find(reference) ?? seen?.record;
  return found && toReferenced(order, found, secrets.isSame(order, found.order));
}

function keptFor({ holdings }: EngineOps, { heir }: LeaseRecord): string | undefined {
  const found = heir === undefined ? undefined : holdings.find(heir);
  return found !== undefined && (mayHoldResources(found.phase) || found.heir !== undefined) ? heir : undefined;
}

function reportDepsOf(
  { records, holdings, history, feedback, sign, digest, nowNs, policy, report }: EngineOps,
  { token }: Lead,
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

/** Yields to the event loop between batches, so that a leader of very many leases can renew its lead. */
async function forEachYielding<Item>(items: readonly Item[], work: (item: Item) => void): Promise<void> {
  for (const [at, item] of items.entries()) {
    if (at % BATCH_SIZE === BATCH_SIZE - 1) await new Promise(setImmediate);
    work(item);
  }
}

import { once } from "node:events";
import { followHints, makeWaitingLeases, type WaitingLeases } from "./wake-leases.ts";
import type { StoredValue, StoredLease } from "../holdings/records.ts";
import { makeCallPauses, type CallPauses } from "./call-pauses.ts";
import type { WorkloadCalls } from "./call-workload.ts";
import { checkLease, openChecks, type LeaseChecks } from "./check-lease.ts";
import { mayHoldResources, type LeaseRecord } from "../domain/lease.ts";
import { decideAlert, isStuck } from "../domain/decide-retry.ts";
import { planReport } from "../domain/plan-feedback.ts";
import { planLease } from "../domain/plan-lease.ts";
import { sortByRank } from "../types/workload-types.ts";
import { requeueAfter, startLeaseController, type LeaseController } from "./lease-controller.ts";
import { makeLeasePasses, type PassDeps } from "./pass.ts";
import { openReporter } from "./report-lease.ts";
import { buildPassDeps, buildReportDeps, type EngineOps, type EngineLead } from "./engine-ops.ts";

/** Leases processed before the event loop runs other work. */
const BATCH_SIZE = 200;

/** Provisions and decommissions leases as their records state, and reports them, while the lead is held. */
export async function runEngine(ops: EngineOps, lead: EngineLead): Promise<void> {
  const { view, nowNs, policy, report } = ops;
  const stop = new AbortController();
  const signal = AbortSignal.any([lead.signal, stop.signal]);
  const own = { ...lead, signal };
  const waiting = makeWaitingLeases();
  const { retry } = policy.pass;
  const pauses = makeCallPauses(retry);
  const pass = buildPassDeps(ops, own, waiting, pauses);
  const checks = openChecks(policy.recheckMs, Math.random);
  const alerts = openAlerts(ops);
  const passes = startPasses(ops, { pass, checks, lead: own, alerts, waiting });
  const reporter = openReporter(buildReportDeps(ops, lead, (id) => reports.add(id)));
  const reports: LeaseController = startLeaseController({
    name: "lease-feedback",
    reconcile: async (id) => requeueAfter(await reporter.report(id), nowNs()),
    nowNs,
    retry,
    failed: (id, error) => report.failed(id, "history", error),
    lead: own,
    ...(ops.clock !== undefined && { clock: ops.clock }),
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
  readonly checks: LeaseChecks;
  readonly alerts: Alerts;
  readonly pauses: CallPauses;
};

/** Tracks changes of leases and schedules their next passes and reports. */
function trackLeases(
  { holdings, nowNs, policy }: EngineOps,
  { pass, passes, reports, waiting, checks, alerts, pauses }: TrackDeps,
): { readonly observe: (stored: StoredLease) => void; readonly forget: (id: string) => void } {
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
async function loadAll(ops: EngineOps): Promise<StoredLease[]> {
  const all = (await ops.records.list()).filter(({ record }) => isOwn(ops, { record }));
  await forEachYielding(all, (stored) => ops.holdings.learn(stored));
  return all;
}

/** Observes the newer of the stored and the viewed record of each lease, because changes before the view was followed were not observed. */
async function observeAll(
  ops: EngineOps,
  all: readonly StoredLease[],
  observe: (stored: StoredLease) => void,
  signal: AbortSignal,
): Promise<void> {
  const newest = new Map(all.map((stored) => [stored.record.order.id, stored]));
  for (const { key, value, revision } of ops.view.entries())
    if (isOwn(ops, value) && (newest.get(key)?.revision ?? 0) < revision)
      newest.set(key, { record: value.record, revision });
  await forEachYielding(
    sortByRank([...newest.values()], ({ record }) => record.order.type),
    (stored) => {
      // Changes since that record were observed when they arrived.
      if (!signal.aborted && (ops.view.get(stored.record.order.id)?.revision ?? 0) <= stored.revision) observe(stored);
    },
  );
}

type StartDeps = Pick<TrackDeps, "checks" | "alerts" | "waiting"> & {
  readonly pass: PassDeps & Pick<WorkloadCalls, "check">;
  readonly lead: EngineLead;
};

function startPasses(
  { view, nowNs, policy, report, clock }: EngineOps,
  { pass, checks, lead, alerts, waiting }: StartDeps,
): LeaseController {
  const reconcile = makeLeasePasses(pass, policy.pass);
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
    // A lease that waits for other leases may have no time of its next pass, so that a lost wake-up would leave it waiting. All other leases have such a time.
    resyncKeys: waiting.ids,
    ...(clock !== undefined && { clock }),
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

function isOwn({ engine }: EngineOps, value: StoredValue): value is { readonly record: LeaseRecord } {
  return "record" in value && value.record.order.engine === engine;
}

/** Yields to the event loop between batches, so that a leader of very many leases can renew its lead. */
async function forEachYielding<Item>(items: readonly Item[], work: (item: Item) => void): Promise<void> {
  for (const [at, item] of items.entries()) {
    if (at % BATCH_SIZE === BATCH_SIZE - 1) await new Promise(setImmediate);
    work(item);
  }
}

import { runPeriodically } from "@muster/controller";
import { describeFault, findFault } from "@muster/faults";
import { logNotRemoved, sweepOwners, type SweepOptions } from "@muster/ledger-client";
import { decideSweepBrake, type SweepBrake, type OwnedObject, type SweepStep } from "@muster/ledger-client/plan-sweep";
import type { Session } from "@muster/store";
import type { World } from "./adapters/views.ts";
import { decideReservationStanding, type OwnedReservation } from "./domain/plan-allocation.ts";
import { decidePodStanding, type OwnedPod } from "./domain/plan-sweep.ts";
import type { FarmDeps } from "./farm-deps.ts";
import type { PassDeps } from "./pass-deps.ts";

/** The lock of the sweeping farm. No set can have this name. */
const SWEEP_LOCK = "_sweep";
/** Left over objects are removed at the second sweep, because their set may be new, or may be in deletion together with them. */
const GRACE_MS = 0;

/** Removes pods and machines of sets that do not exist; one farm at a time. */
export async function sweepSets(deps: FarmDeps, session: Session): Promise<void> {
  const { pass, logger, sweepMs } = deps;
  const left = { pods: new Map<string, number>(), machines: new Map<string, number>() };
  const sweepOne = async <Item extends OwnedObject>(what: keyof typeof left, own: OwnSweep<Item>): Promise<void> => {
    try {
      const brake = (steps: readonly SweepStep<Item>[]): Promise<SweepBrake | undefined> => brakeOn(deps, what, steps);
      const report = { ...own.report, notRemoved: logNotRemoved<Item>(logger, what) };
      const options = { ...own, report, brake, leftSince: left[what] };
      const swept = await sweepOwners({ ...options, graceMs: GRACE_MS, nowMs: pass.now });
      if (swept.brake !== undefined) left[what].clear();
    } catch (error) {
      const fault = findFault(error);
      if (fault === undefined) throw error;
      // Objects that cannot be listed now count as new in the next sweep.
      left[what].clear();
      logger.warn({ reason: describeFault(fault) }, `the sweep of ${what} without a set failed`);
    }
  };
  const sweepAll = async (): Promise<void> => {
    const failsafe = pass.failsafe();
    if (failsafe) pass.report.planned(SWEEP_LOCK, "wait", "failsafe");
    if (failsafe) await alertLostSets(deps);
    if (failsafe || (await session.lock(SWEEP_LOCK)) === undefined) {
      left.pods.clear();
      left.machines.clear();
      return;
    }
    await sweepOne("pods", podSweep(deps, session));
    await sweepOne("machines", machineSweep(deps, session, left.machines));
  };
  await runPeriodically({
    name: "replica-set-sweep",
    work: sweepAll,
    everyMs: sweepMs,
    firstAfterMs: sweepMs,
    onError: (error, failures, level) => logger[level]({ err: error, failures }, "a sweep failed, and is retried"),
    stop: session.signal,
  });
}

type OwnSweep<Item extends OwnedObject> = Pick<SweepOptions<Item>, "observe" | "remove" | "report">;

function podSweep({ pods, pass, logger, reportForeign }: FarmDeps, session: Session): OwnSweep<OwnedPod> {
  return {
    observe: async () => {
      const objects = await pods.list();
      const uids = new Map<string, string | undefined>();
      for (const name of new Set(objects.map(({ set }) => set))) {
        const found = name === "" ? undefined : await pass.sets.get(name);
        if (found !== undefined) uids.set(name, "record" in found ? found.record.uid : undefined);
      }
      const nowMs = pass.now();
      return { objects, standingOf: (pod) => decidePodStanding(pod, uids, nowMs, pass.force) };
    },
    remove: async (step) => {
      const { pod, uid, set, deleting: force } = step.object;
      if (!session.isHeld()) return { ...step, kind: "suspect" };
      logger.warn({ pod, uid, set, force }, "deleting a pod whose set does not exist");
      pass.report.planned(set, "delete", step.because);
      await pods.delete(pod, uid, force);
      return step;
    },
    report: { leftAlone: reportForeign },
  };
}

/** Releases machines once the pods on them are gone. */
function machineSweep(
  { pods, pass, scheduler, logger }: FarmDeps,
  session: Session,
  leftSince: ReadonlyMap<string, number>,
): OwnSweep<OwnedReservation & OwnedObject> {
  return {
    observe: async () => {
      const objects = (await scheduler.list(session.signal)).map((owned) => ({ ...owned, uid: owned.reservation }));
      const sets = new Set<string>();
      for (const name of new Set(objects.map(({ set }) => set)))
        if ((await pass.sets.get(name)) !== undefined) sets.add(name);
      const isDue = objects.some(({ set, uid }) => !sets.has(set) && leftSince.has(uid));
      const own = isDue ? (await pods.list()).filter(({ otherInstallation }) => otherInstallation === undefined) : [];
      const withPods = new Set(own.map(({ set }) => set));
      return { objects, standingOf: (owned) => decideReservationStanding(owned, { sets, withPods }) };
    },
    remove: async (step) => {
      const { set, number, reservation } = step.object;
      if (!session.isHeld()) return { ...step, kind: "suspect" };
      logger.warn({ set, number, reservation }, "releasing a machine whose set does not exist");
      pass.report.planned(set, "deallocate", step.because);
      await scheduler.deallocate({ set, number, reservation });
      return step;
    },
  };
}

/**
 * The farm removes a record after all objects of its set. Leftovers without any record therefore indicate lost records: the brake raises an alert, and no
 * object is removed.
 */
async function brakeOn(
  { pass, world }: FarmDeps,
  what: "pods" | "machines",
  steps: readonly SweepStep<OwnedObject>[],
): Promise<SweepBrake | undefined> {
  const incidentKey = `no-sets-for-${what}`;
  const left = steps.filter((step) => step.kind !== "keep").length;
  if (left === 0) pass.alerts.resolve(incidentKey);
  if (!steps.some((step) => step.kind === "remove")) return undefined;
  const owners = (await isAnyStored(pass, world)) ? 1 : 0;
  const counts = { left, olderThanStore: 0, found: steps.length, owners, owner: "replica set", confirmed: 0 };
  const brake = decideSweepBrake(counts, { maxObjects: Number.POSITIVE_INFINITY, maxPercent: 100 });
  if (brake === undefined) return undefined;
  pass.report.planned(SWEEP_LOCK, "wait", incidentKey);
  pass.alerts.raise({
    incidentKey,
    description: `${what} of replica sets exist, but no replica set: this farm removes none of them until one exists`,
    urgency: "HIGH",
    details: { found: left },
    replicaSet: "",
  });
  return brake;
}

/** Pods of replica sets without any record indicate lost records. Without such pods the installation may be new. */
async function alertLostSets({ pods, pass, world, logger }: FarmDeps): Promise<void> {
  if (world.sets().length > 0) return;
  try {
    const own = (await pods.list()).filter(({ otherInstallation }) => otherInstallation === undefined);
    if (own.length === 0) return;
    pass.alerts.raise({
      incidentKey: "no-sets",
      description: "pods of replica sets exist, but no replica set: this farm removes nothing until one exists",
      urgency: "HIGH",
      details: { pods: own.length },
      replicaSet: "",
    });
  } catch (error) {
    const fault = findFault(error);
    if (fault === undefined) throw error;
    logger.warn({ reason: describeFault(fault) }, "pods without replica sets could not be listed");
  }
}

/** Reads a set from the bucket, because the view may be stale. */
async function isAnyStored({ sets }: Pick<PassDeps, "sets">, world: Pick<World, "sets">): Promise<boolean> {
  for (const { name } of world.sets()) if ((await sets.get(name)) !== undefined) return true;
  return false;
}

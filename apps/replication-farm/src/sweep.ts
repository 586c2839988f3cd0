import { pause } from "@muster/backoff";
import { describeFault, faultOf } from "@muster/faults";
import type { Session } from "@muster/store";
import type { World } from "./adapters/views.ts";
import { planReservationSweep } from "./domain/plan-allocation.ts";
import { planSweep } from "./domain/plan-sweep.ts";
import type { FarmDeps } from "./farm.ts";
import type { PassDeps } from "./pass.ts";

/** Of the lock of the one farm that sweeps. No set can have this name. */
const SWEEP_LOCK = "_sweep";

/** Looks for pods and machines of sets that do not exist; one farm at a time. */
export async function sweep(deps: FarmDeps, session: Session): Promise<void> {
  const { pass, logger, sweepMs } = deps;
  let suspects = NOBODY;
  for (;;) {
    await pause(sweepMs, session.signal);
    if (session.signal.aborted) return;
    const failsafe = pass.failsafe();
    if (failsafe) pass.tell.planned(SWEEP_LOCK, "wait", "failsafe");
    if (failsafe || (await session.lock(SWEEP_LOCK)) === undefined) {
      suspects = NOBODY;
      continue;
    }
    // What cannot be listed now is met for the first time later.
    const attempt = async (what: string, look: () => Promise<ReadonlySet<string>>): Promise<ReadonlySet<string>> => {
      try {
        return await look();
      } catch (error) {
        const fault = faultOf(error);
        if (fault === undefined) throw error;
        logger.warn({ reason: describeFault(fault) }, `looking for ${what} without a set failed`);
        return new Set();
      }
    };
    suspects = {
      pods: await attempt("pods", () => sweepPods(deps, session, suspects.pods)),
      machines: await attempt("machines", () => sweepMachines(deps, session, suspects.machines)),
    };
  }
}

type Suspects = { readonly pods: ReadonlySet<string>; readonly machines: ReadonlySet<string> };

const NOBODY: Suspects = { pods: new Set(), machines: new Set() };

/** Returns those that are suspected now. */
async function sweepPods(
  deps: FarmDeps,
  session: Session,
  suspects: ReadonlySet<string>,
): Promise<ReadonlySet<string>> {
  const { pods, pass, logger } = deps;
  const seen = await pods.list();
  const names = new Set(seen.map(({ set }) => set));
  const uids = new Map<string, string | undefined>();
  for (const name of names) {
    const found = name === "" ? undefined : await pass.sets.get(name);
    if (found !== undefined) uids.set(name, "record" in found ? found.record.uid : undefined);
  }
  const plan = planSweep(seen, uids, suspects, pass.now(), pass.force);
  deps.tellLeftAlone(plan.leftAlone);
  if (await lookLost(deps, "pods", plan.suspects, plan.delete.length)) return NOBODY.pods;
  for (const { pod, force } of plan.delete) {
    if (!session.isHeld()) break;
    logger.warn({ pod: pod.pod, uid: pod.uid, set: pod.set, force }, "deleting a pod whose set does not exist");
    pass.tell.planned(pod.set, "delete", force ? "orphan-on-lost-node" : "orphan");
    await pods.delete(pod.pod, pod.uid, force);
  }
  return plan.suspects;
}

/** As `sweepPods`. Machines go after the pods that are on them. */
async function sweepMachines(
  deps: FarmDeps,
  session: Session,
  suspects: ReadonlySet<string>,
): Promise<ReadonlySet<string>> {
  const { pods, pass, scheduler, logger } = deps;
  const seen = await scheduler.list(session.signal);
  const sets = new Set<string>();
  for (const name of new Set(seen.map(({ set }) => set))) if ((await pass.sets.get(name)) !== undefined) sets.add(name);
  const orphaned = seen.some(({ set, reservation }) => !sets.has(set) && suspects.has(reservation));
  const own = orphaned ? (await pods.list()).filter(({ otherInstallation }) => otherInstallation === undefined) : [];
  const withPods = new Set(own.map(({ set }) => set));
  const plan = planReservationSweep(seen, { sets, withPods }, suspects);
  if (await lookLost(deps, "machines", plan.suspects, plan.deallocate.length)) return NOBODY.machines;
  for (const owned of plan.deallocate) {
    if (!session.isHeld()) break;
    logger.warn({ ...owned }, "giving back a machine whose set does not exist");
    pass.tell.planned(owned.set, "deallocate", "orphan");
    await scheduler.deallocate(owned);
  }
  return plan.suspects;
}

/** A record goes after all that its set has, so that things to be removed, and no record at all, mean that the records were lost: that is told, and nothing is removed. */
async function lookLost(
  { pass, world }: FarmDeps,
  what: keyof Suspects,
  suspects: ReadonlySet<string>,
  due: number,
): Promise<boolean> {
  const incidentKey = `no-sets-for-${what}`;
  if (suspects.size === 0) pass.alerts.resolve(incidentKey);
  if (due === 0 || (await isAnyStored(pass, world))) return false;
  pass.tell.planned(SWEEP_LOCK, "wait", incidentKey);
  pass.alerts.raise({
    incidentKey,
    description: `there are ${what} of replica sets, and no replica set: this farm removes none of them until there is one`,
    urgency: "HIGH",
    details: { found: suspects.size },
    replicaSet: "",
  });
  return true;
}

/** What is followed may be behind: one that is stored has to be found there. */
async function isAnyStored({ sets }: Pick<PassDeps, "sets">, world: Pick<World, "sets">): Promise<boolean> {
  for (const { name } of world.sets()) if ((await sets.get(name)) !== undefined) return true;
  return false;
}

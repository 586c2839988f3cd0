import { pause } from "@muster/backoff";
import { describeFault, faultOf } from "@muster/faults";
import type { Logger } from "@muster/service";
import type { Session } from "@muster/store";
import type { Pods } from "./adapters/pods.ts";
import type { PoolScheduler } from "./adapters/pool-scheduler.ts";
import type { World, WorldChange } from "./adapters/views.ts";
import { startChild, type Child } from "./child.ts";
import { readSelector } from "./domain/eligible-nodes.ts";
import { planClaims, type LiveFarm, type OwnableSet } from "./domain/plan-claims.ts";
import { planReservationSweep } from "./domain/plan-allocation.ts";
import { planSweep } from "./domain/plan-sweep.ts";
import type { PassDeps } from "./pass.ts";

export type FarmDeps = {
  readonly pass: PassDeps;
  readonly world: World;
  readonly pods: Pick<Pods, "list" | "delete">;
  readonly scheduler: Pick<PoolScheduler, "list" | "deallocate" | "onChange">;
  readonly logger: Pick<Logger, "info" | "warn" | "error">;
  readonly resyncMs: number;
  readonly sweepMs: number;
};

export type Farm = {
  /** Owns sets for as long as the session lives. */
  run(session: Session): Promise<void>;
  /** How many sets it owns now. */
  owned(): number;
};

/** Of the lock of the one farm that sweeps. No set can have this name. */
const SWEEP_LOCK = "_sweep";
/** A set whose loop ended by a defect is taken up again after this. */
const DEFECT_PAUSE_MS = 10_000;

/** What a farm tells others of itself. */
export function aboutFarm(rcSelector: string): { readonly rcSelector: string } {
  return { rcSelector };
}

/** Shares the sets with all farms that live: each set has one owner, which makes passes over it. */
export function makeFarm(deps: FarmDeps): Farm {
  const children = new Map<string, Child>();
  return {
    owned: () => children.size,
    run: async (session) => {
      const releasing = new Set<string>();
      const claiming = new Set<string>();
      const defectUntilMs = new Map<string, number>();
      const claim = async (name: string): Promise<void> => {
        if (claiming.has(name) || (defectUntilMs.get(name) ?? 0) > deps.pass.now()) return;
        claiming.add(name);
        try {
          const lock = await session.lock(name);
          if (lock === undefined || !session.isHeld()) return;
          const { isHeld, signal } = session;
          const { resyncMs } = deps;
          const child = startChild(deps.pass, { name, fence: lock.token, isHeld, signal, resyncMs });
          children.set(name, child);
          deps.logger.info({ set: name, fence: lock.token }, "a set is ours");
          void child.done
            .catch((error: unknown) => {
              defectUntilMs.set(name, deps.pass.now() + DEFECT_PAUSE_MS);
              deps.logger.error({ set: name, err: error }, "defect in the passes over a set");
            })
            .then(async () => {
              children.delete(name);
              await session.unlock(lock);
              look();
            })
            // It goes with the session, or is taken up again by a later look.
            .catch((error: unknown) => deps.logger.warn({ set: name, err: error }, "a set could not be given up"));
        } finally {
          claiming.delete(name);
        }
      };
      const release = async (name: string): Promise<void> => {
        if (releasing.has(name)) return;
        releasing.add(name);
        // What follows the end of the loop gives the lock up.
        await children.get(name)?.stop();
        releasing.delete(name);
      };
      const look = (): void => {
        if (session.signal.aborted) return;
        const sets = ownableSets(deps.world, session, children);
        for (const step of planClaims(session.id, liveFarms(session), sets)) {
          const work = step.do === "claim" ? claim(step.set) : release(step.set);
          work.catch((error: unknown) => deps.logger.warn({ set: step.set, err: error }, `${step.do} failed`));
        }
      };
      const wake = (change: WorldChange): void => {
        for (const [name, child] of children) if (concerns(deps.world, change, name)) child.wake();
        if (change.kind === "set" || change.kind === "roll") look();
      };
      using stack = new DisposableStack();
      stack.defer(session.onChange(look));
      stack.defer(deps.world.onChange(wake));
      const wakeFor = (set: string | undefined): void => {
        for (const [name, child] of children) if (set === undefined || set === name) child.wake();
      };
      stack.defer(deps.scheduler.onChange(wakeFor));
      look();
      const alive = async (): Promise<void> => {
        // For a defect's pause, and for what no change tells.
        while (!session.signal.aborted) {
          await pause(Math.min(deps.resyncMs, DEFECT_PAUSE_MS), session.signal);
          look();
        }
      };
      try {
        await Promise.all([alive(), sweep(deps, session)]);
      } finally {
        await Promise.all([...children.values()].map((child) => child.stop()));
        children.clear();
      }
    },
  };
}

/** The sets that can be read, and the rolling updates whose own set is gone: they are run by name. */
function ownableSets(world: World, session: Session, children: ReadonlyMap<string, Child>): OwnableSet[] {
  const { locks } = session.view();
  const ownerOf = (name: string): string | undefined => {
    if (children.has(name)) return session.id;
    const lock = locks.get(name);
    // One of ours without a loop is on its way to be given up, or was taken by a request whose answer was late.
    return lock === undefined || lock.free || lock.session === session.id ? undefined : lock.session;
  };
  const sets = new Map<string, Readonly<Record<string, string>>>();
  for (const { name, read } of world.sets()) if ("record" in read) sets.set(name, read.record.spec.labels);
  for (const { id, read } of world.rolls()) {
    if (sets.has(id) || world.set(id) !== undefined || !("record" in read)) continue;
    sets.set(id, sets.get(read.record.newSet) ?? sets.get(read.record.oldSet) ?? {});
  }
  return [...sets].map(([name, labels]) => ({ name, labels, owner: ownerOf(name) }));
}

function liveFarms(session: Session): LiveFarm[] {
  return [...session.view().sessions.values()].flatMap(({ id, about }) => {
    const text = about?.["rcSelector"];
    if (typeof text !== "string") return [];
    try {
      return [{ session: id, selector: readSelector("rcSelector", text) }];
    } catch {
      // Of a later version, perhaps: who cannot be understood is left to himself.
      return [];
    }
  });
}

/** Sets of one pod id, and those of one rolling update, wait for each other's nodes. */
function concerns(world: World, change: WorldChange, name: string): boolean {
  if (change.kind === "nodes" || change.name === name) return true;
  const own = recordOf(world, name);
  const changed = recordOf(world, change.name);
  if (own !== undefined && own.spec.podId === changed?.spec.podId) return true;
  const roll = world.rolls().find(({ id }) => id === name)?.read;
  const rolled = roll !== undefined && "record" in roll ? roll.record : undefined;
  return own?.roll === change.name || rolled?.oldSet === change.name || rolled?.newSet === change.name;
}

function recordOf(world: World, name: string) {
  const read = world.set(name)?.read;
  return read !== undefined && "record" in read ? read.record : undefined;
}

/** Looks for pods and machines of sets that do not exist; one farm at a time. */
async function sweep(deps: FarmDeps, session: Session): Promise<void> {
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
  const withPods = new Set(orphaned ? (await pods.list()).map(({ set }) => set) : []);
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

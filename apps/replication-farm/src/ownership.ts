import { readLabelSelector } from "@muster/names";
import type { Session } from "@muster/store";
import type { World } from "./adapters/views.ts";
import { planSetClaims, type LiveFarm, type OwnableSet } from "./domain/plan-set-claims.ts";
import type { FarmDeps } from "./farm-deps.ts";
import type { SetPasses } from "./set-passes.ts";

type OwnershipDeps = Pick<FarmDeps, "logger"> & {
  readonly world: Pick<World, "sets" | "set" | "rollouts" | "rollout">;
  /** Reads from the store whether a set or a rolling update has this name. */
  readonly isStored: (name: string) => Promise<boolean>;
};

/**
 * Claims and releases sets as `planSetClaims` decides, by the state at each scan. Returns the scan of the sets and rolling updates of these names, or of
 * all. It starts the work and does not wait for it.
 */
export function makeScan(
  deps: OwnershipDeps,
  session: Session,
  passes: Pick<SetPasses, "has" | "own" | "release">,
): (names?: Iterable<string>) => void {
  const { logger } = deps;
  const releasing = new Set<string>();
  /** Claims in flight. True: a later scan ran meanwhile, so another claim may succeed. */
  const claims = new Map<string, boolean>();
  const own = async (name: string): Promise<void> => {
    // The view may lag: without this check, the farm would lock and unlock a deleted set until the view has caught up.
    if (!(await deps.isStored(name))) return;
    const lock = await session.lock(name);
    if (lock === undefined || !session.isHeld()) return;
    const ended = passes.own(name, lock.token);
    logger.info({ set: name, fence: lock.token }, "this farm owns a set");
    void ended
      .then(async () => {
        await session.unlock(lock);
        scan([name]);
      })
      // The lock is released with the session, or a later scan claims the set again.
      .catch((error: unknown) => logger.warn({ set: name, err: error }, "a set could not be released"));
  };
  const claim = async (name: string): Promise<void> => {
    const isUnderWay = claims.has(name);
    claims.set(name, isUnderWay);
    if (isUnderWay) return;
    try {
      await own(name);
    } finally {
      const isOutdated = claims.get(name);
      claims.delete(name);
      if (isOutdated === true) scan([name]);
    }
  };
  const release = async (name: string): Promise<void> => {
    if (releasing.has(name)) return;
    releasing.add(name);
    // The handler at the end of the passes releases the lock.
    await passes.release(name);
    releasing.delete(name);
  };
  const scan = (names?: Iterable<string>): void => {
    if (session.signal.aborted) return;
    const sets = ownableSets(deps.world, session, passes, names);
    for (const step of planSetClaims(session.id, liveFarms(session), sets)) {
      const work = step.kind === "claim" ? claim(step.set) : release(step.set);
      work.catch((error: unknown) => logger.warn({ set: step.set, err: error }, `${step.kind} failed`));
    }
  };
  return scan;
}

/** Lists the readable sets, and the rolling updates whose own set is gone, which farms own by name. */
function ownableSets(
  world: OwnershipDeps["world"],
  session: Session,
  passes: Pick<SetPasses, "has">,
  names: Iterable<string> | undefined,
): OwnableSet[] {
  const { locks } = session.view();
  const ownerOf = (name: string): string | undefined => {
    if (passes.has(name)) return session.id;
    const lock = locks.get(name);
    // A lock of ours without passes is being released, or was granted to a request whose answer was late.
    return lock === undefined || lock.free || lock.session === session.id ? undefined : lock.session;
  };
  const labelsOf = (name: string): Labels | undefined => {
    const read = world.set(name)?.read;
    return read !== undefined && "record" in read ? read.record.spec.labels : undefined;
  };
  const sets = new Map<string, Labels>();
  for (const name of names ?? listNames(world)) {
    const labels = labelsOf(name);
    const rollout = world.rollout(name)?.read;
    if (labels !== undefined) sets.set(name, labels);
    else if (world.set(name) === undefined && rollout !== undefined && "record" in rollout)
      sets.set(name, labelsOf(rollout.record.newSet) ?? labelsOf(rollout.record.oldSet) ?? {});
  }
  return [...sets].map(([name, labels]) => ({ name, labels, owner: ownerOf(name) }));
}

type Labels = OwnableSet["labels"];

function listNames(world: Pick<World, "sets" | "rollouts">): Iterable<string> {
  return new Set([...world.sets().map(({ name }) => name), ...world.rollouts().map(({ id }) => id)]);
}

function liveFarms(session: Session): LiveFarm[] {
  return [...session.view().sessions.values()].flatMap(({ id, about }) => {
    const text = about?.["rcSelector"];
    if (typeof text !== "string") return [];
    try {
      return [{ session: id, selector: readLabelSelector("rcSelector", text) }];
    } catch {
      // The selector may be from a later version. This farm assigns no sets to a farm with an unreadable selector.
      return [];
    }
  });
}

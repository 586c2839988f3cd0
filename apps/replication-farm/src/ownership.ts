import { pause } from "@muster/backoff";
import type { Session } from "@muster/store";
import type { World } from "./adapters/views.ts";
import { readSelector } from "./domain/eligible-nodes.ts";
import { planClaims, type LiveFarm, type OwnableSet } from "./domain/plan-claims.ts";
import type { FarmDeps } from "./farm-deps.ts";
import type { SetPasses } from "./set-passes.ts";

/** A set whose passes ended by a defect is taken up again after this. */
const DEFECT_PAUSE_MS = 10_000;

export type OwnershipDeps = Pick<FarmDeps, "logger"> & {
  readonly world: Pick<World, "sets" | "set" | "rolls" | "roll">;
};

/**
 * Makes the sets that this farm owns those that it should, by what is seen at the moment of each look. Returns the look at the sets and rolling updates of these names, or at all, which begins what is to be done and does not wait for it.
 */
export function makeLook(
  deps: OwnershipDeps,
  session: Session,
  passes: Pick<SetPasses, "has" | "own" | "release">,
): (names?: Iterable<string>) => void {
  const { logger } = deps;
  const releasing = new Set<string>();
  /** Those under way; true: there was a look since it began, and what that saw may let the next one succeed. */
  const claims = new Map<string, boolean>();
  /** Those whose passes ended by a defect a moment ago. */
  const defective = new Set<string>();
  const own = async (name: string): Promise<void> => {
    const lock = await session.lock(name);
    if (lock === undefined || !session.isHeld()) return;
    const { signal } = session;
    const ended = passes.own(name, lock.token);
    logger.info({ set: name, fence: lock.token }, "a set is ours");
    void ended
      .catch((error: unknown) => {
        defective.add(name);
        void pause(DEFECT_PAUSE_MS, signal).then(() => {
          defective.delete(name);
          look([name]);
        });
        logger.error({ set: name, err: error }, "defect in the passes over a set");
      })
      .then(async () => {
        await session.unlock(lock);
        look([name]);
      })
      // It goes with the session, or is taken up again by a later look.
      .catch((error: unknown) => logger.warn({ set: name, err: error }, "a set could not be given up"));
  };
  const claim = async (name: string): Promise<void> => {
    if (defective.has(name)) return;
    const isUnderWay = claims.has(name);
    claims.set(name, isUnderWay);
    if (isUnderWay) return;
    try {
      await own(name);
    } finally {
      const isOutdated = claims.get(name);
      claims.delete(name);
      if (isOutdated === true) look([name]);
    }
  };
  const release = async (name: string): Promise<void> => {
    if (releasing.has(name)) return;
    releasing.add(name);
    // What follows the end of the passes gives the lock up.
    await passes.release(name);
    releasing.delete(name);
  };
  const look = (names?: Iterable<string>): void => {
    if (session.signal.aborted) return;
    const sets = ownableSets(deps.world, session, passes, names);
    for (const step of planClaims(session.id, liveFarms(session), sets)) {
      const work = step.kind === "claim" ? claim(step.set) : release(step.set);
      work.catch((error: unknown) => logger.warn({ set: step.set, err: error }, `${step.kind} failed`));
    }
  };
  return look;
}

/** The sets that can be read, and the rolling updates whose own set is gone: they are run by name. */
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
    // One of ours without passes is on its way to be given up, or was taken by a request whose answer was late.
    return lock === undefined || lock.free || lock.session === session.id ? undefined : lock.session;
  };
  const labelsOf = (name: string): Labels | undefined => {
    const read = world.set(name)?.read;
    return read !== undefined && "record" in read ? read.record.spec.labels : undefined;
  };
  const sets = new Map<string, Labels>();
  for (const name of names ?? namesOf(world)) {
    const labels = labelsOf(name);
    const roll = world.roll(name)?.read;
    if (labels !== undefined) sets.set(name, labels);
    else if (world.set(name) === undefined && roll !== undefined && "record" in roll)
      sets.set(name, labelsOf(roll.record.newSet) ?? labelsOf(roll.record.oldSet) ?? {});
  }
  return [...sets].map(([name, labels]) => ({ name, labels, owner: ownerOf(name) }));
}

type Labels = OwnableSet["labels"];

function namesOf(world: Pick<World, "sets" | "rolls">): Iterable<string> {
  return new Set([...world.sets().map(({ name }) => name), ...world.rolls().map(({ id }) => id)]);
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

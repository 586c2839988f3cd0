import {
  openStopGrace,
  makeReconciler,
  runController,
  workQueue,
  type ControllerLead,
  type Reconcile,
} from "@muster/controller";
import { NO_REFUSALS } from "./pass-machines.ts";
import { makePodsOwned } from "./pass-pods.ts";
import { requeueLater, makeSetPasses } from "./pass.ts";
import type { SetOwnership, PassDeps } from "./pass-deps.ts";

/** The passes over all sets that a farm owns. */
export type SetPasses = {
  readonly size: number;
  has(name: string): boolean;
  /** Starts passes over the set. Resolves when the passes have ended: by `release`, because the set is gone, or because another farm owns it. */
  own(name: string, fence: number): Promise<void>;
  /** Ends the passes over the set after the one in flight. */
  release(name: string): Promise<void>;
  /** Wakes the owned sets among these names. */
  wake(names: Iterable<string>): void;
  wakeAll(): void;
  /** Ends all passes after those in flight. */
  stop(): Promise<void>;
};

/** Limits retries of failed passes and conflicts: a pause per set, which a change ends, and a rate for all sets together. */
const LIMITS = { firstMs: 200, maxMs: 30_000, perSecond: 1000, burst: 10_000 };

/** A set that this farm makes passes over. */
type OwnedSet = { readonly owned: SetOwnership; readonly ended: PromiseWithResolvers<void> };

/**
 * Runs passes over the sets: after each change of the view, after each own write, and at each resync. A failed pass is retried with a growing pause, which a
 * change ends. No set waits for another. No pass begins after `stop`.
 */
export function startPasses(
  deps: PassDeps,
  { lead, stop, resyncMs }: { readonly lead: ControllerLead; readonly stop: AbortSignal; readonly resyncMs: number },
): SetPasses {
  const sets = new Map<string, OwnedSet>();
  const queue = workQueue({ limits: LIMITS });
  const stopping = new AbortController();
  const ending = AbortSignal.any([stop, stopping.signal]);
  // Pod steps may outlive the pass that begins them, so they get the same grace period.
  const grace = openStopGrace({ stop: ending, lost: lead.lost });
  const end = async ({ owned, ended }: OwnedSet): Promise<void> => {
    await Promise.allSettled(owned.steps.values());
    sets.delete(owned.name);
    ended.resolve();
  };
  const pass = makeReconciler(makeSetPasses(deps, (name) => sets.get(name)?.owned));
  const reconcile: Reconcile = async (name, signal) => {
    const set = sets.get(name);
    if (set === undefined) return {};
    try {
      const next = await pass(name, signal);
      if (set.owned.end !== undefined) await end(set);
      return next;
    } catch (error) {
      return requeueLater(deps, set.owned, error);
    }
  };
  const running = runController({
    name: "replica-set",
    queue,
    reconcile,
    workers: Infinity,
    resync: { keys: () => sets.keys(), everyMs: resyncMs },
    lead,
    onError: (error, name) => deps.report.failed(name, "pass", error),
    stop: ending,
  }).finally(() => Promise.all([...sets.values()].map(end)));
  const wake = (names: Iterable<string>): void => {
    for (const name of names) if (sets.has(name)) queue.add(name);
  };
  return {
    get size() {
      return sets.size;
    },
    has: (name) => sets.has(name),
    own: (name, fence) => {
      if (ending.aborted || lead.lost.aborted) return Promise.resolve();
      const isHeld = (): boolean => owned.end === undefined && !grace.signal.aborted && lead.isHeld();
      const owned = makeSetOwnership(deps, { name, fence, isHeld });
      const ended: OwnedSet["ended"] = Promise.withResolvers();
      sets.set(name, { owned, ended });
      queue.add(name);
      return ended.promise;
    },
    release: async (name) => {
      const set = sets.get(name);
      if (set === undefined) return;
      set.owned.end = "released";
      queue.add(name);
      await set.ended.promise;
    },
    wake,
    wakeAll: () => wake(sets.keys()),
    stop: async () => {
      stopping.abort();
      await running;
      grace[Symbol.dispose]();
    },
  };
}

/** Returns a newly owned set without memory. */
export function makeSetOwnership(
  deps: Pick<PassDeps, "sets">,
  set: Pick<SetOwnership, "name" | "fence" | "isHeld">,
): SetOwnership {
  return {
    ...makePodsOwned(deps, set),
    refusals: { ...NO_REFUSALS },
    unreadySince: new Map(),
    rolloutWait: undefined,
    isRolloutFenced: false,
    doneUnder: undefined,
    end: undefined,
  };
}

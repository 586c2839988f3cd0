import { backoffMs, makeBell } from "@muster/backoff";
import { faultOf, isRetryable } from "@muster/faults";
import { NO_REFUSALS } from "./pass-machines.ts";
import { newPodsOwned } from "./pass-pods.ts";
import { passSet, type Owned, type PassDeps, type Passed } from "./pass.ts";

/** The loop over one set that a farm owns. */
export type Child = {
  readonly fence: number;
  /** Something about the set may have changed. */
  wake(): void;
  /** Stops after what is under way. */
  stop(): Promise<void>;
  /** Resolves when the loop has ended: told to, because the set is gone, or because it is somebody else's. Rejects with a defect. */
  readonly done: Promise<void>;
};

const RETRY = { firstMs: 200, mostMs: 30_000 };

/**
 * Makes passes over a set: after each change of what is seen, after each write of its own, and now and then for what no change tells. Changes that come while a pass is under way are
 * one change. What fails is tried again with a growing pause, which a change ends.
 */
export function startChild(
  deps: PassDeps,
  options: {
    readonly name: string;
    readonly fence: number;
    readonly isHeld: () => boolean;
    readonly signal: AbortSignal;
    readonly resyncMs: number;
  },
): Child {
  const { name, fence, signal, resyncMs } = options;
  const stopping = new AbortController();
  const ended = AbortSignal.any([signal, stopping.signal]);
  const owned = newOwned(deps, { name, fence, isHeld: () => !ended.aborted && options.isHeld() });
  const bell = makeBell();
  const loop = async (): Promise<void> => {
    for (let failures = 0; owned.isHeld();) {
      bell.reset();
      const passed = await tryPass(deps, owned);
      if (passed.is === "gone" || passed.is === "lost") return;
      if (passed.is === "again") {
        failures = 0;
        continue;
      }
      failures = passed.failed ? failures + 1 : 0;
      const untilMs = passed.failed ? backoffMs(failures, RETRY) : passed.atMs - deps.now();
      await bell.wait(Math.min(resyncMs, Math.max(0, untilMs)), ended);
    }
  };
  const done = loop().finally(() => Promise.all(owned.steps.values()));
  return {
    fence,
    wake: bell.ring,
    stop: async () => {
      stopping.abort();
      await done.catch(() => undefined);
    },
    done,
  };
}

/** A set that nothing is remembered of yet. */
export function newOwned(deps: Pick<PassDeps, "sets">, set: Pick<Owned, "name" | "fence" | "isHeld">): Owned {
  return {
    ...newPodsOwned(deps, set),
    refusals: { ...NO_REFUSALS },
    unreadySince: new Map(),
    rollWait: undefined,
    rollAtMs: Number.POSITIVE_INFINITY,
    doneUnder: undefined,
  };
}

async function tryPass(deps: PassDeps, owned: Owned): Promise<Passed> {
  try {
    return await passSet(deps, owned);
  } catch (error) {
    const fault = faultOf(error);
    if (fault === undefined) throw error;
    // Somebody else wrote first: the next pass decides on that.
    if (fault.code === "conflict") return { is: "again" };
    deps.tell.failed(owned.name, isRetryable(fault) ? "pass" : "refused", error);
    return { is: "settled", atMs: Number.POSITIVE_INFINITY, failed: true };
  }
}

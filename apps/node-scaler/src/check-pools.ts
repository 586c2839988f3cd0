import { pause } from "@muster/backoff";
import { describeFault, faultOf } from "@muster/faults";
import type { PoolPolicy } from "./domain/pool.ts";
import type { Scaler } from "./scaler.ts";

/** Until a pool is right, or could be looked at. */
const AGAIN_MS = 30_000;

/**
 * Looks whether each pool's provider can make its nodes, when a leadership begins, and again until it can: the first boot would find it out otherwise. What is
 * wrong is told and hinders nothing: the nodes that a pool has are kept and ended all the same. Resolves when all pools are right or the leadership ends; never rejects.
 */
export async function checkPools(scaler: Scaler, wait: typeof pause = pause): Promise<void> {
  const { policies, signal } = scaler;
  const stopped = (): boolean => signal.aborted;
  await Promise.all(
    [...policies.values()].map(async (policy) => {
      while (!stopped() && !(await isRight(scaler, policy))) await wait(AGAIN_MS, signal);
    }),
  );
}

async function isRight({ providers, memory, signal, now, tell }: Scaler, policy: PoolPolicy): Promise<boolean> {
  const { name, provider } = policy;
  try {
    const problems = await findProblems(() => providers.get(provider)?.checkPool(policy, signal));
    const before = memory.wrongPools.get(name);
    if (problems.length === 0) {
      memory.wrongPools.delete(name);
      return true;
    }
    const message = problems.join("; ");
    if (before?.message !== message) tell.wrong(name, problems);
    memory.wrongPools.set(name, { sinceMs: before?.sinceMs ?? now(), message });
  } catch (error) {
    if (!signal.aborted) tell.failed("pool", `checking pool ${name}`, error);
  }
  return false;
}

/** Rejects when nobody could say. */
async function findProblems(ask: () => Promise<readonly string[]> | undefined): Promise<readonly string[]> {
  try {
    return (await ask()) ?? [];
  } catch (error) {
    const fault = faultOf(error);
    // Asking again does not help: what is missing, or not allowed, is so for the first boot, too.
    if (fault?.code === "invalid_request" || fault?.code === "not_found") return [describeFault(fault)];
    throw error;
  }
}

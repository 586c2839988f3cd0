import { backoffMs, pause } from "@muster/backoff";
import { describeFault, faultOf } from "@muster/faults";
import type { PoolPolicy } from "./domain/pool.ts";
import type { Scaler } from "./scaler.ts";

/** Between two looks at a pool that is not right, or could not be looked at. */
const AGAIN = { firstMs: 30_000, mostMs: 600_000 };

/**
 * Looks whether each pool's provider can make its nodes, when a leadership begins, and again, less and less often, until it can: the first boot would find it out otherwise. What is
 * wrong is told and hinders nothing: the nodes that a pool has are kept and ended all the same. Resolves when all pools are right or the leadership ends; never rejects.
 */
export async function checkPools(scaler: Scaler, wait: typeof pause = pause): Promise<void> {
  const { policies, signal } = scaler;
  const stopped = (): boolean => signal.aborted;
  await Promise.all(
    [...policies.values()].map(async (policy) => {
      for (let look = 1; !stopped() && !(await isRight(scaler, policy)); look += 1)
        await wait(backoffMs(look, AGAIN), signal);
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

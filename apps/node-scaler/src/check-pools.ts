import { computeBackoffMs, pause } from "@muster/backoff";
import { describeFault, findFault } from "@muster/faults";
import type { PoolPolicy } from "./domain/pool.ts";
import type { Scaler } from "./scaler.ts";

/** The pauses between two checks of a pool that is invalid, or could not be checked. */
const RETRY = { firstMs: 30_000, maxMs: 600_000 };

/**
 * Checks that each pool's provider can create its nodes, with growing pauses, before the first boot would fail. Problems are reported and block nothing:
 * existing nodes are kept and ended as usual. Resolves when all pools are valid or the leadership ends; never rejects.
 */
export async function checkPools(scaler: Scaler, wait: typeof pause = pause): Promise<void> {
  const { policies, signal } = scaler;
  const stopped = (): boolean => signal.aborted;
  await Promise.all(
    [...policies.values()].map(async (policy) => {
      for (let attempt = 1; !stopped() && !(await isPoolValid(scaler, policy)); attempt += 1)
        await wait(computeBackoffMs(attempt, RETRY), signal);
    }),
  );
}

async function isPoolValid({ providers, memory, signal, now, report }: Scaler, policy: PoolPolicy): Promise<boolean> {
  const { name, provider } = policy;
  try {
    const problems = await findProblems(() => providers.get(provider)?.checkPool(policy, signal));
    const before = memory.invalidPools.get(name);
    if (problems.length === 0) {
      memory.invalidPools.delete(name);
      return true;
    }
    const message = problems.join("; ");
    if (before?.message !== message) report.poolIsWrong(name, problems);
    memory.invalidPools.set(name, { sinceMs: before?.sinceMs ?? now(), message });
  } catch (error) {
    if (!signal.aborted) report.failed("pool", `checking pool ${name}`, error);
  }
  return false;
}

/** Rejects if the provider does not answer. */
async function findProblems(ask: () => Promise<readonly string[]> | undefined): Promise<readonly string[]> {
  try {
    return (await ask()) ?? [];
  } catch (error) {
    const fault = findFault(error);
    // A retry does not help, because the first boot would fail in the same way.
    if (fault?.code === "invalid_request" || fault?.code === "not_found") return [describeFault(fault)];
    throw error;
  }
}

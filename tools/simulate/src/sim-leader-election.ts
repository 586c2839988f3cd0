import { setTimeout as sleep } from "node:timers/promises";
import type { Leadership } from "@muster/store";
import type { Network } from "./network.ts";
import type { Trace } from "./trace.ts";
import type { Process } from "./task-queue.ts";
import type { VirtualTime } from "./virtual-time.ts";
import { countFault, type FaultRisks } from "./fault-risks.ts";

/** A lock of the lock bucket. The token grows with each holder. */
export type LockWorld = {
  readonly name: string;
  token: number;
  holder: Process | undefined;
  renewedAtMs: number;
  /** Whether a holder checks its own clock before it acts. Otherwise only the fence of its writes stops a deposed leader. */
  holdersCheckClock: boolean;
};

export type Election = {
  readonly time: VirtualTime;
  readonly network: Network;
  readonly weather: FaultRisks;
  readonly trace: Trace;
  readonly lock: LockWorld;
  readonly ttlMs: number;
};

/** Runs the work whenever this process holds the lock, until the signal. */
export async function runSimLead(
  election: Election,
  process: Process,
  signal: AbortSignal,
  work: (leadership: Leadership) => Promise<void>,
): Promise<void> {
  const { time, network, weather, trace, lock, ttlMs } = election;
  const isFree = (): boolean => lock.holder === undefined || time.nowMs - lock.renewedAtMs >= ttlMs;
  while (!signal.aborted) {
    const sentAtMs = time.nowMs;
    const token = await network
      .call("nats", `lock ${lock.name}`, () => {
        if (!isFree()) return undefined;
        if (lock.token > 0) countFault(weather, "leader changed");
        Object.assign(lock, { token: lock.token + 1, holder: process, renewedAtMs: time.nowMs });
        return lock.token;
      })
      .catch(() => undefined);
    if (token === undefined) {
      await sleep(ttlMs / 5, undefined, { signal }).catch(() => undefined);
      continue;
    }
    trace.note(process.name, `leads ${lock.name} with token ${token}`);
    await hold(election, { token, sentAtMs }, signal, work);
    await network
      .call("nats", `unlock ${lock.name}`, () => {
        if (lock.token === token) lock.holder = undefined;
      })
      .catch(() => undefined);
  }
}

async function hold(
  { time, network, lock, ttlMs }: Election,
  { token, sentAtMs }: { readonly token: number; readonly sentAtMs: number },
  signal: AbortSignal,
  work: (leadership: Leadership) => Promise<void>,
): Promise<void> {
  const lost = new AbortController();
  const end = (): void => lost.abort();
  signal.addEventListener("abort", end, { once: true });
  let heldUntilMs = sentAtMs + ttlMs;
  const renewal = setInterval(() => {
    const atMs = time.nowMs;
    const renewed = network.call("nats", `renew ${lock.name}`, () => {
      if (lock.token !== token) return false;
      lock.renewedAtMs = time.nowMs;
      return true;
    });
    renewed.then(
      (ours) => {
        if (ours) heldUntilMs = Math.max(heldUntilMs, atMs + ttlMs);
        else lost.abort();
      },
      () => undefined,
    );
  }, ttlMs / 3);
  const check = setInterval(() => {
    if (lock.holdersCheckClock && time.nowMs >= heldUntilMs) lost.abort();
  }, ttlMs / 10);
  const isHeld = (): boolean => {
    if (lock.holdersCheckClock && time.nowMs >= heldUntilMs) lost.abort();
    return !lost.signal.aborted;
  };
  try {
    await work({ token, signal: lost.signal, lost: lost.signal, isHeld });
  } finally {
    clearInterval(renewal);
    clearInterval(check);
    signal.removeEventListener("abort", end);
  }
}

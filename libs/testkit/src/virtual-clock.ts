import type { Clock } from "@muster/backoff";

/** A clock that advances only when its owner moves it. Alarms ring in the order of their times, each at its own time. */
export type VirtualClock = Clock & {
  advance(ms: number): void;
  /** Advances the clock; after each ring it lets all pending promises settle, and then calls `after`. */
  run(ms: number, after?: () => void): Promise<void>;
  readonly alarms: number;
};

export function makeVirtualClock(): VirtualClock {
  let nowMs = 0;
  const alarms = new Set<{ readonly atMs: number; readonly ring: () => void }>();

  function next(untilMs: number) {
    const due = [...alarms].filter(({ atMs }) => atMs <= untilMs).sort((one, two) => one.atMs - two.atMs)[0];
    if (due !== undefined) alarms.delete(due);
    return due;
  }
  function* rings(ms: number): Generator<() => void> {
    const untilMs = nowMs + ms;
    for (let due = next(untilMs); due !== undefined; due = next(untilMs)) {
      nowMs = Math.max(nowMs, due.atMs);
      yield due.ring;
    }
    nowMs = untilMs;
  }

  return {
    now: () => nowMs,
    alarm: (afterMs, ring) => {
      const alarm = { atMs: nowMs + Math.max(0, afterMs), ring };
      alarms.add(alarm);
      return () => alarms.delete(alarm);
    },
    advance: (ms) => {
      for (const ring of rings(ms)) ring();
    },
    run: async (ms, after = () => undefined) => {
      await waitUntilSettled();
      after();
      for (const ring of rings(ms)) {
        ring();
        await waitUntilSettled();
        after();
      }
    },
    get alarms() {
      return alarms.size;
    },
  };
}

/** Resolves when all that can happen without a timer or the network has happened. */
export async function waitUntilSettled(): Promise<void> {
  for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

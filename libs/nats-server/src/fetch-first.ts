import { setTimeout as sleep } from "node:timers/promises";
import type { ProgramSource } from "./source.ts";

/** Time limits of a fetch in milliseconds. */
export type FetchLimits = {
  /** Limit of all sources together. */
  readonly limitMs: number;
  /** A source that has not answered after this continues, and the next one starts beside it. */
  readonly headStartMs: number;
  /** Interval of progress lines while no other event is reported. */
  readonly progressIntervalMs: number;
};

/** The outcome of one source. */
export type Attempt<Result> = { readonly result: Result } | { readonly why: string };

/**
 * Tries the sources, fastest first, and resolves with the result of the first one that succeeds, or with the reasons of all if none succeeds within the limit.
 * Aborts sources that still run, and waits for their end. Rejects only when the signal is aborted.
 */
export async function fetchFirst<Result>(
  sources: readonly ProgramSource[],
  attempt: (source: ProgramSource, signal: AbortSignal) => Promise<Attempt<Result>>,
  options: FetchLimits & {
    readonly signal: AbortSignal;
    /** Aborted when the total time is over; a part may have passed before. */
    readonly limit: AbortSignal;
    readonly onProgress: (line: string) => void;
  },
): Promise<{ readonly result: Result } | { readonly failures: readonly string[] }> {
  const { limitMs, headStartMs, progressIntervalMs, signal, limit, onProgress } = options;
  const startedMs = performance.now();
  const over = new AbortController();
  const stop = AbortSignal.any([signal, over.signal, limit]);
  const failures: string[] = [];
  const trying = new Map<ProgramSource, Promise<void>>();
  let found: { readonly result: Result } | undefined;

  const begin = async (source: ProgramSource): Promise<void> => {
    onProgress(`fetching nats-server: ${source.name} (takes ${source.takes})`);
    const ended = await attempt(source, stop);
    trying.delete(source);
    if ("result" in ended) {
      found ??= ended;
      over.abort();
    } else if (!over.signal.aborted) {
      const why = limit.aborted ? `not done within ${formatSeconds(limitMs)}` : ended.why;
      failures.push(`${source.name}: ${why}`);
      onProgress(`  failed: ${source.name}: ${why}`);
    }
  };
  const saying = setInterval(() => {
    const names = [...trying.keys()].map(({ name }) => name).join(" and ");
    if (names !== "") onProgress(`  ${formatSeconds(performance.now() - startedMs)}: still at it: ${names}`);
  }, progressIntervalMs);
  try {
    for (const source of sources) {
      if (stop.aborted) break;
      const ending = begin(source);
      trying.set(source, ending);
      await Promise.race([ending, quietly(headStartMs, stop)]);
    }
    await Promise.all(trying.values());
  } finally {
    clearInterval(saying);
  }
  signal.throwIfAborted();
  return found ?? { failures };
}

async function quietly(delayMs: number, signal: AbortSignal): Promise<void> {
  await sleep(delayMs, undefined, { signal }).catch(() => undefined);
}

/** `2 minutes` where it is whole minutes, else `75 s`. */
export function formatSeconds(ms: number): string {
  const whole = Math.round(ms / 1000);
  return whole >= 120 && whole % 60 === 0 ? `${whole / 60} minutes` : `${whole} s`;
}

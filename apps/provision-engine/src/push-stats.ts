import { backoffMs, type pause } from "@muster/backoff";

export type PushStatsDeps = {
  readonly stats: () => object;
  /** UpdateStats of the Feedbacker. */
  readonly push: (stats: object, signal: AbortSignal) => Promise<void>;
  readonly pause: typeof pause;
  readonly failed: (error: unknown) => void;
  readonly everyMs: number;
};

const RETRY = { firstMs: 2000, mostMs: 60_000 };

/** Pushes statistics to a controller at the start and after each change, until the signal. */
export async function pushStats(deps: PushStatsDeps, signal: AbortSignal): Promise<void> {
  let pushed: string | undefined;
  for (let failures = 0; !signal.aborted;) {
    const stats = deps.stats();
    const text = JSON.stringify(stats);
    if (text !== pushed) {
      try {
        await deps.push(stats, signal);
        pushed = text;
        failures = 0;
      } catch (error) {
        if (isAborted(signal)) return;
        failures += 1;
        deps.failed(error);
      }
    }
    await deps.pause(failures === 0 ? deps.everyMs : backoffMs(failures, RETRY), signal);
  }
}

/** Evaluated again after each wait, which TypeScript cannot know. */
function isAborted(signal: AbortSignal): boolean {
  return signal.aborted;
}

import type { Leadership } from "@muster/store";

/** How long the order of an instance that is in flight may take after this process is asked to stop: less than the time for an orderly end. */
const STOP_GRACE_MS = 10_000;

/**
 * A signal for orders at providers: aborted immediately when the lead is lost, and only after a pause when this process stops. An order that is cut short has
 * an unknown outcome, and its node ends as failed.
 */
export function openStopGrace({ signal, lost }: Pick<Leadership, "signal" | "lost">): Disposable & {
  readonly signal: AbortSignal;
} {
  const over = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const cut = (): void => over.abort(signal.reason);
  const stop = (): void => {
    timer = setTimeout(cut, STOP_GRACE_MS);
  };
  lost.addEventListener("abort", cut, { once: true });
  signal.addEventListener("abort", stop, { once: true });
  return {
    signal: over.signal,
    [Symbol.dispose]: () => {
      clearTimeout(timer);
      lost.removeEventListener("abort", cut);
      signal.removeEventListener("abort", stop);
    },
  };
}

import { pauseBy, systemClock, type Clock } from "@muster/backoff";

type StopGraceOptions = {
  readonly stop: AbortSignal;
  /** Missing: no lead can be lost. */
  readonly lost?: AbortSignal | undefined;
  /** Default 10 s, half of a service's time for an orderly stop. */
  readonly graceMs?: number | undefined;
  readonly clock?: Clock;
};

const STOP_GRACE_MS = 10_000;

/**
 * A signal for work that should finish: aborted immediately when the lead is lost, but only after the grace period when the process stops. Never aborted after
 * disposal.
 */
export function openStopGrace({
  stop,
  lost,
  graceMs = STOP_GRACE_MS,
  clock = systemClock,
}: StopGraceOptions): Disposable & {
  readonly signal: AbortSignal;
} {
  const cut = new AbortController();
  const over = new AbortController();
  const cutLate = async (): Promise<void> => {
    await pauseBy(clock, graceMs, over.signal);
    if (!over.signal.aborted) cut.abort(new DOMException("the time to finish is over", "AbortError"));
  };
  const undo = new DisposableStack();
  undo.defer(() => over.abort());
  undo.defer(onAbort(lost, () => cut.abort(lost?.reason)));
  undo.defer(onAbort(stop, () => void cutLate()));
  return { signal: cut.signal, [Symbol.dispose]: () => undo.dispose() };
}

/** Calls `call` once when the signal is aborted, also if it already is. Returns the function that stops listening. */
export function onAbort(signal: AbortSignal | undefined, call: () => void): () => void {
  if (signal?.aborted === true) call();
  else signal?.addEventListener("abort", call, { once: true });
  return () => signal?.removeEventListener("abort", call);
}

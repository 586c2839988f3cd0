import { takeTurns } from "@muster/backoff";
import { findFault, throwFault } from "@muster/faults";
import { checkHeld } from "./check-held.ts";
import type { NodeProvider } from "../providers/provider.ts";

type ProviderLimits = {
  /** The timeout of one call, without its wait in the queue. */
  readonly timeoutMs: number;
  readonly maxCallsInFlight: number;
  /** A monotonic clock in milliseconds. */
  readonly now: () => number;
};

/** Returns the provider for one term of leadership. */
export type ProviderOfLeader = (isHeld: () => boolean) => NodeProvider;

/**
 * Limits the time and the concurrency of calls to a provider, and makes no call during a pause that the provider requests. Calls in a pause reject with
 * limit_exceeded and the remaining time, slow calls with deadline_exceeded. Each kind of call has its own queue and pause, so it never delays another kind.
 * Starts and stops reject with unavailable if the process no longer leads at their turn.
 */
export function guardProvider(provider: NodeProvider, limits: ProviderLimits): ProviderOfLeader {
  const starting = makeLane(provider.name, limits);
  const listing = makeLane(provider.name, limits);
  const stopping = makeLane(provider.name, limits);
  const findingImages = makeLane(provider.name, limits);
  const checking = makeLane(provider.name, limits);
  return (isHeld) => ({
    name: provider.name,
    fixedSizeVolumes: provider.fixedSizeVolumes,
    start: (boot, signal) =>
      starting(`starting ${boot.nodeName}`, signal, (inner) => {
        checkHeld(isHeld);
        return provider.start(boot, inner);
      }),
    stop: (instance, signal) =>
      stopping(`stopping ${instance.nodeName}`, signal, (inner) => {
        checkHeld(isHeld);
        return provider.stop(instance, inner);
      }),
    list: (signal) => listing("listing instances", signal, (inner) => provider.list(inner)),
    findImage: (properties, signal) =>
      findingImages("finding an image", signal, (inner) => provider.findImage(properties, inner)),
    checkPool: (pool, signal) =>
      checking(`checking pool ${pool.name}`, signal, (inner) => provider.checkPool(pool, inner)),
    [Symbol.asyncDispose]: () => provider[Symbol.asyncDispose](),
  });
}

type Lane = <Result>(
  operation: string,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<Result>,
) => Promise<Result>;

function makeLane(provider: string, { timeoutMs, maxCallsInFlight: maxCallsInFlight, now }: ProviderLimits): Lane {
  const turns = takeTurns(maxCallsInFlight);
  let silentUntilMs = -Infinity;
  return (operation, signal, work) =>
    turns(async () => {
      try {
        const leftMs = Math.ceil(silentUntilMs - now());
        const what = `calls of provider ${provider}`;
        if (leftMs > 0) throwFault({ code: "limit_exceeded", what, limit: 0, retryAfterMs: leftMs });
        return await limited(operation, timeoutMs, signal, work);
      } catch (error) {
        const fault = findFault(error);
        // A provider of some kinds does not distinguish a rate limit from an overload.
        if (fault !== undefined && "retryAfterMs" in fault)
          silentUntilMs = Math.max(silentUntilMs, now() + fault.retryAfterMs);
        throw error;
      }
    }, signal);
}

/** The wait also ends for a provider that ignores its signal. */
async function limited<Result>(
  operation: string,
  timeoutMs: number,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const limit = new AbortController();
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    limit.abort(new DOMException(`${operation} took too long`, "TimeoutError"));
    try {
      throwFault({ code: "deadline_exceeded", operation, timeoutMs });
    } catch (error) {
      late.reject(error);
    }
  }, timeoutMs);
  const cut = (): void => late.reject(signal.reason);
  signal.addEventListener("abort", cut, { once: true });
  try {
    return await Promise.race([work(AbortSignal.any([signal, limit.signal])), late.promise]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", cut);
  }
}

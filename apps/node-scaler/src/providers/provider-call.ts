import { throwFault, type Fault } from "@muster/faults";

type ProviderCall = {
  /** A text for errors: `starting elastic-1`. */
  readonly doing: string;
  /** The timeout of the whole call, however many requests it takes. */
  readonly timeoutMs: number;
  /** The caller's abort signal. */
  readonly outer: AbortSignal;
};

/**
 * Runs a call under one timeout. Throws an error as the fault that `toFault` returns, and otherwise unchanged; after the caller's abort, throws the signal's
 * reason.
 */
export async function callProvider<T>(
  { doing, timeoutMs, outer }: ProviderCall,
  toFault: (error: unknown) => Fault | undefined,
  body: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const limit = AbortSignal.timeout(timeoutMs);
  try {
    return await body(AbortSignal.any([outer, limit]));
  } catch (error) {
    outer.throwIfAborted();
    if (limit.aborted)
      return throwFault({ code: "deadline_exceeded", operation: doing, timeoutMs }, { cause: error, doing });
    const fault = toFault(error);
    if (fault === undefined) throw error;
    return throwFault(fault, { cause: error, doing });
  }
}

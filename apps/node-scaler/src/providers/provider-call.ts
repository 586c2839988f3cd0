import { throwFault, type Fault } from "@muster/faults";

/** One call of a provider. */
type ProviderCall = {
  /** For errors: `starting elastic-1`. */
  readonly doing: string;
  /** Time limit of the whole call, however many requests it takes. */
  readonly timeoutMs: number;
  /** The caller's own stop. */
  readonly outer: AbortSignal;
};

/**
 * Runs a call under one time limit. What goes wrong is thrown as the fault that `toFault` makes of it, and as it is where that makes none; the caller's own
 * stop is thrown as what it is.
 */
export async function providerCall<T>(
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

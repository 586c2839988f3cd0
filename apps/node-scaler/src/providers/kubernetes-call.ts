import { throwFault } from "@muster/faults";
import { kubeFault } from "@muster/kube";

/** Runs calls to the API server under one time limit; what goes wrong is thrown as a fault, the caller's own stop as what it is. */
export async function kubernetesCall<T>(
  { doing, timeoutMs, outer }: { readonly doing: string; readonly timeoutMs: number; readonly outer: AbortSignal },
  body: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const limit = AbortSignal.timeout(timeoutMs);
  try {
    return await body(AbortSignal.any([outer, limit]));
  } catch (error) {
    outer.throwIfAborted();
    if (limit.aborted)
      return throwFault({ code: "deadline_exceeded", operation: doing, timeoutMs }, { cause: error, doing });
    const fault = kubeFault(error);
    if (fault === undefined) throw error;
    return throwFault(fault, { cause: error, doing });
  }
}

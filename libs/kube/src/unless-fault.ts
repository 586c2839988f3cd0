import { FaultError, unlessFaultIn, type Fault } from "@muster/faults";
import { toKubeFault, requireKubeFault } from "./kube-fault.ts";

/** Resolves with undefined for these faults, which are expected answers, such as `not_found` for an object that may be gone. */
export function unlessFault<Value>(
  call: Promise<Value>,
  ...codes: readonly Fault["code"][]
): Promise<Value | undefined> {
  return unlessFaultIn(toKubeFault, call, codes);
}

/** Resolves with undefined if the object does not exist. */
export function unlessMissing<Value>(call: Promise<Value>): Promise<Value | undefined> {
  return unlessFault(call, "not_found");
}

/** Rejects with the FaultError of a failed call, which names the operation (`doing`); a cancelled call keeps its own error. */
export async function withKubeFault<Value>(call: Promise<Value>, doing?: string): Promise<Value> {
  try {
    return await call;
  } catch (error) {
    const fault = requireKubeFault(error);
    if (fault.code === "cancelled") throw error;
    throw new FaultError(fault, { cause: error, ...(doing !== undefined && { doing }) });
  }
}

import { describeFault, type Fault } from "./fault.ts";

/** Carries a Fault across a boundary that throws. Recognise it with `isFaultError` or `faultOf`, never with `instanceof`. */
export class FaultError extends Error {
  readonly fault: Fault;

  constructor(fault: Fault, options?: { cause?: unknown; doing?: string }) {
    const text = describeFault(fault);
    super(options?.doing === undefined ? text : `${options.doing}: ${text}`, { cause: options?.cause });
    this.name = "FaultError";
    this.fault = fault;
  }
}

export function isFaultError(error: unknown): error is FaultError {
  return error instanceof Error && error.name === "FaultError" && "fault" in error;
}

/** The fault that an error carries, if it carries one. */
export function findFault(error: unknown): Fault | undefined {
  return isFaultError(error) ? error.fault : undefined;
}

export function throwFault(fault: Fault, options?: { cause?: unknown; doing?: string }): never {
  throw new FaultError(fault, options);
}

/** The level at which a failure that is retried is logged: a warning, or an error when it is no fault, and so a defect. */
export function logLevelOf(error: unknown): "warn" | "error" {
  return findFault(error) === undefined ? "error" : "warn";
}

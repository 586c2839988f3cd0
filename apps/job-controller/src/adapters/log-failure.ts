import type { PeriodicWork } from "@muster/controller";
import { toKubeFault } from "@muster/kube";
import type { Logger } from "@muster/service";

/** Returns a function that logs the failed rounds of a periodic task: a defect as an error, a fault as a warning. */
export function makeFailureLog(logger: Pick<Logger, "warn" | "error">, task: string): PeriodicWork["onError"] & {} {
  return (error, failures) => {
    const level = toKubeFault(error) === undefined ? "error" : "warn";
    logger[level]({ err: error, failures, doing: task }, "a task failed, and is retried");
  };
}

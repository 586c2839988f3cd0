import { findFault } from "@muster/faults";
import { buildProblem, type Problem } from "../domain/build-problem.ts";

const MAX_FAILED_CHECKS = 3;

/** Returns the reason why a stream must end; undefined if it may continue. */
export type StreamCheck = () => Promise<Problem | undefined>;

/** Lets a stream continue while its check fails, for example during a short outage of the cluster. After three consecutive failures the stream must end. */
export function limitFailedChecks(check: StreamCheck): StreamCheck {
  let failures = 0;
  return async () => {
    try {
      const refusal = await check();
      failures = 0;
      return refusal;
    } catch (error) {
      const fault = findFault(error);
      if (fault === undefined) throw error;
      failures += 1;
      return failures < MAX_FAILED_CHECKS ? undefined : buildProblem(fault);
    }
  };
}

import { DEBUG_WORKLOAD } from "./debug.ts";
import type { Workload } from "./workload.ts";

/** What makes each type that this engine serves. A new one is a file and a line here. */
export function makeWorkloads(): readonly Workload[] {
  return [DEBUG_WORKLOAD];
}

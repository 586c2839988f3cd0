import { NO_UNITS } from "../domain/claim.ts";
import { makeWorkloadType } from "./workload-type.ts";
import type { Workload } from "./workload.ts";

/** Returns the data of the order as its result, for tests of an engine. */
export const DEBUG = makeWorkloadType({
  type: "debug",
  counter: "debug",
  rank: 0,
  claimOf: () => ({ units: NO_UNITS, network: undefined, needs: { networks: [], volumes: [] } }),
  workload: () => DEBUG_WORKLOAD,
});

/** Returns the data of the order and creates no object. */
export const DEBUG_WORKLOAD: Workload = {
  type: "debug",
  provision: ({ order }) => Promise.resolve(order.data),
  decommission: () => Promise.resolve(),
};

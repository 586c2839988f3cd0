import type { Workload } from "./workload.ts";

/** Gives back its data; nothing of it is anywhere. */
export const DEBUG_WORKLOAD: Workload = {
  type: "debug",
  provision: ({ order }) => Promise.resolve(order.data),
  decommission: () => Promise.resolve(),
};

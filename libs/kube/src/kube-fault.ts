import type { Fault } from "@muster/faults";

/** The fault behind an error of client-node, by status code and never by text; undefined when it is not one of the API server's or the network's. */
export function kubeFault(error: unknown): Fault | undefined {
  void error;
  throw new Error("pending");
}

import { throwFault } from "@muster/faults";
import type { PodAddresses } from "../kubelet/pod-addresses.ts";

/** Maximum number of nodes in one simulation: each has a /24 of 10/8. */
export const MAX_SIMULATED_NODES = 65_536;
const FIRST_HOST = 2;
const LAST_HOST = 254;

/** Allocates addresses without listeners, unique in one simulation, the least recently released first. */
export function makeNodeAddresses(nodeIndex: number): Pick<PodAddresses, "allocate" | "release"> {
  const block = `10.${nodeIndex >> 8}.${nodeIndex & 255}`;
  const free = Array.from({ length: LAST_HOST - FIRST_HOST + 1 }, (_, host) => `${block}.${host + FIRST_HOST}`);
  const limit = free.length;
  return {
    allocate: () => {
      const address = free.shift();
      if (address !== undefined) return address;
      return throwFault({
        code: "limit_exceeded",
        what: `pods with an address on ${block}.0/24`,
        limit,
        retryAfterMs: 1_000,
      });
    },
    release: (address) => {
      free.push(address);
    },
  };
}

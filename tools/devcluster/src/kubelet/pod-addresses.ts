import { once } from "node:events";
import { createServer, type Server } from "node:net";
import { throwFault } from "@muster/faults";

/** The pod addresses of one node: a block of 127/8 that no other kubelet on this machine uses. */
export type PodAddresses = AsyncDisposable & {
  /** `127.a.b`. */
  readonly block: string;
  /** Allocates an address that no live pod of this node has, the least recently freed first. Throws limit_exceeded if all are in use. */
  allocate(): string;
  release(address: string): void;
};

/** The listener on this port of a block's first address owns the block. The system releases it when the owner dies. */
const CLAIM_PORT = 11_270;
/** Two addresses are reserved: that of the claim, and the last one, which some systems treat as a broadcast. */
const FIRST_HOST = 2;
const LAST_HOST = 254;
/** Maximum number of nodes. */
export const MAX_NODES = 250;
const BLOCKS_PER_NODE = 256;

/** Claims 127.<nodeIndex + 1>.b.0/24 with the first b that is free. Throws unavailable on a system that has 127.0.0.1 alone. */
export async function claimPodAddresses(nodeIndex: number): Promise<PodAddresses> {
  if (!Number.isInteger(nodeIndex) || nodeIndex < 0 || nodeIndex >= MAX_NODES) {
    throwFault({
      code: "invalid_request",
      field: "nodeIndex",
      reason: `${nodeIndex} is not between 0 and ${MAX_NODES - 1}`,
    });
  }
  for (let third = 0; third < BLOCKS_PER_NODE; third++) {
    const block = `127.${nodeIndex + 1}.${third}`;
    const claim = await tryClaim(`${block}.1`);
    if (claim !== undefined) return podAddresses(block, claim);
  }
  return throwFault({
    code: "limit_exceeded",
    what: `kubelets with node index ${nodeIndex} on this machine`,
    limit: BLOCKS_PER_NODE,
    retryAfterMs: 0,
  });
}

function podAddresses(block: string, claim: Server): PodAddresses {
  const free: string[] = [];
  for (let host = FIRST_HOST; host <= LAST_HOST; host++) free.push(`${block}.${host}`);
  const total = free.length;
  const used = new Set<string>();
  return {
    block,
    allocate: () => {
      const address = free.shift();
      if (address === undefined) {
        return throwFault({
          code: "limit_exceeded",
          what: `pods with an address on ${block}.0/24`,
          limit: total,
          retryAfterMs: 1_000,
        });
      }
      used.add(address);
      return address;
    },
    release: (address) => {
      if (used.delete(address)) free.push(address);
    },
    [Symbol.asyncDispose]: async () => {
      claim.close();
      await once(claim, "close");
    },
  };
}

/** Returns undefined if another kubelet has the block. */
async function tryClaim(address: string): Promise<Server | undefined> {
  const server = createServer((socket) => socket.destroy());
  try {
    server.listen({ host: address, port: CLAIM_PORT, exclusive: true });
    await once(server, "listening");
    return server;
  } catch (error) {
    if (hasCode(error, "EADDRINUSE")) return undefined;
    if (!hasCode(error, "EADDRNOTAVAIL")) throw error;
    return throwFault(
      {
        code: "invalid_request",
        field: "pod addresses",
        reason: `${address} cannot be used on this system, which gives loopback 127.0.0.1 alone; add the addresses first (macOS: sudo ifconfig lo0 alias ${address} up, for each pod) or run on Linux`,
      },
      { cause: error },
    );
  }
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}

import type { Fault } from "@muster/faults";

export type RequestLimits = {
  readonly maxRequests: number;
  /** Maximum requests of one address whose user and body the gateway has not received yet. */
  readonly maxArriving: number;
};

/** Counts the running requests, and the arriving requests of each address. */
export type RunningRequests<Request> = {
  /** Counts the request until `leave`, and as arriving until `arrive`. Returns the fault of a request above a limit; that request counts too. */
  begin(request: Request, address: string): Fault | undefined;
  /** Records that the gateway has received the user and the body. */
  arrive(request: Request): void;
  leave(request: Request): void;
  readonly running: number;
  /** Number of addresses with arriving requests. */
  readonly addresses: number;
};

/** Retry hint at a limit. */
export const BUSY_RETRY_MS = 1000;

/** Creates the counter. Repeated calls of `arrive` and `leave` have no effect. */
export function runningRequests<Request>({ maxRequests, maxArriving }: RequestLimits): RunningRequests<Request> {
  const running = new Set<Request>();
  // The address is stored, because a closed HTTP/2 stream has no address.
  const addressOf = new Map<Request, string>();
  const arriving = new Map<string, number>();
  return {
    get running() {
      return running.size;
    },
    get addresses() {
      return arriving.size;
    },
    begin: (request, address) => {
      const ofAddress = (arriving.get(address) ?? 0) + 1;
      running.add(request);
      addressOf.set(request, address);
      arriving.set(address, ofAddress);
      if (running.size > maxRequests) return tooMany("number of concurrent requests", maxRequests);
      if (ofAddress > maxArriving) return tooMany("number of concurrent requests of your address", maxArriving);
      return undefined;
    },
    arrive: (request) => {
      const address = addressOf.get(request);
      if (address === undefined) return;
      addressOf.delete(request);
      const left = (arriving.get(address) ?? 1) - 1;
      if (left === 0) arriving.delete(address);
      else arriving.set(address, left);
    },
    leave: (request) => void running.delete(request),
  };
}

function tooMany(what: string, limit: number): Fault {
  return { code: "limit_exceeded", what, limit, retryAfterMs: BUSY_RETRY_MS };
}

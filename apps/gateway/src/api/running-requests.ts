import type { Fault } from "@muster/faults";

export type RequestLimits = {
  readonly maxRequests: number;
  /** The share of one address in the requests whose user and body the gateway has not received yet. */
  readonly maxArriving: number;
};

/** Counts the requests that run, and those of each address that still arrive. */
export type RunningRequests<Request> = {
  /** Counts the request until `leave`, and as arriving until `arrive`. Returns the fault of a request over a limit, which counts too. */
  begin(request: Request, address: string): Fault | undefined;
  /** The gateway has received the user and the body. */
  arrive(request: Request): void;
  leave(request: Request): void;
  readonly running: number;
  /** The number of addresses with requests that arrive. */
  readonly addresses: number;
};

/** The retry hint at a limit. */
export const BUSY_RETRY_MS = 1000;

/** `arrive` and `leave` have no effect if they are repeated. */
export function runningRequests<Request>({ maxRequests, maxArriving }: RequestLimits): RunningRequests<Request> {
  const running = new Set<Request>();
  // The address is kept, because a closed stream of HTTP/2 has none.
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

import type { CallContext, Client, Handlers } from "@muster/bus";
import { findFault, throwFault } from "@muster/faults";
import { buildLeaseService, type LeaseService, type LeaseServiceOfEngine } from "@muster/proto";
import { isEngineId } from "../config.ts";

type RouteDeps = {
  /** Id of this engine. */
  readonly engine: string;
  /** Handlers of this engine. */
  readonly own: Handlers<typeof LeaseService>;
  /** Client of another engine. */
  readonly other: (engine: string) => Client<LeaseServiceOfEngine>;
  /** Whether a lease names the engine. If so, the engine exists, even without a replica. */
  readonly hasLeases: (engine: string) => boolean;
  readonly nowMs: () => number;
};

/** Methods whose requests name an engine. */
type Routed =
  "orderLease" | "renewLease" | "endLease" | "cleanupResources" | "getCleanup" | "getEngine" | "getCounters";
type Own = Pick<Handlers<typeof LeaseService>, Routed>;
type Requests = { readonly [Method in Routed]: Parameters<Own[Method]>[0] };
type Replies = { readonly [Method in Routed]: Awaited<ReturnType<Own[Method]>> };
/** The methods of this or another engine. */
type EngineMethods = {
  readonly [Method in Routed]: (
    request: Requests[Method],
    call: CallContext & { readonly timeoutMs: number },
  ) => Promise<Replies[Method]>;
};

const RETRY_MS = 1000;
/** Time in which a replaced replica of an engine answers again. */
const REPLACEMENT_MS = 1000;

/**
 * Routes requests that name another engine to that engine. If that engine has no replica, the request fails before its caller's deadline. An engine without a
 * replica and without leases does not exist.
 */
export function makeRouteHandlers(deps: RouteDeps): Handlers<typeof LeaseService> {
  const { engine: here, own, other, nowMs } = deps;
  const routed =
    <Method extends Routed>(method: Method, engineOf: (request: Requests[Method]) => string | null | undefined) =>
    async (request: Requests[Method], { deadlineMs, pageBytes, signal }: CallContext): Promise<Replies[Method]> => {
      const timeoutMs = Math.max(1, (deadlineMs - nowMs()) / 2);
      const ask = (answering: EngineMethods) =>
        answering[method](request, { deadlineMs, pageBytes, signal, timeoutMs });
      const engine = engineOf(request) ?? "";
      // An invalid engine id is refused like a missing one.
      if (engine === "" || engine === here || !isEngineId(engine)) return ask(own);
      try {
        return await ask(other(engine));
      } catch (error) {
        const fault = findFault(error);
        // The other engine itself reports its unavailable dependencies, and a missing leader.
        if (fault?.code !== "unavailable" || fault.dependency !== buildLeaseService(engine).area) throw error;
        return throwFault(
          { code: "unavailable", dependency: describeAway(engine), retryAfterMs: RETRY_MS },
          { cause: error },
        );
      }
    };
  const getRoutedEngine = routed("getEngine", ({ engine }) => engine);
  return {
    ...own,
    orderLease: routed("orderLease", ({ order }) => order?.engine),
    renewLease: routed("renewLease", ({ renewal }) => renewal?.engine),
    endLease: routed("endLease", ({ end }) => end?.engine),
    cleanupResources: routed("cleanupResources", ({ engine }) => engine),
    getCleanup: routed("getCleanup", ({ engine }) => engine),
    getEngine: (request, call) => {
      const { engine } = request;
      if (deps.hasLeases(engine)) return getRoutedEngine(request, call);
      const deadlineMs = Math.min(call.deadlineMs, nowMs() + 2 * REPLACEMENT_MS);
      return unlessAway(getRoutedEngine(request, { ...call, deadlineMs }), engine);
    },
    getCounters: routed("getCounters", ({ engine }) => engine),
  };
}

/** Rejects with not_found instead of the fault that the engine has no replica. */
async function unlessAway<Reply>(reply: Promise<Reply>, engine: string): Promise<Reply> {
  try {
    return await reply;
  } catch (error) {
    const fault = findFault(error);
    if (fault?.code !== "unavailable" || fault.dependency !== describeAway(engine)) throw error;
    return throwFault({ code: "not_found", kind: "engine", id: engine }, { cause: error });
  }
}

function describeAway(engine: string): string {
  return `engine "${engine}", which has no running replica,`;
}

import type { CallContext, Client, Handlers } from "@muster/bus";
import { faultOf, throwFault } from "@muster/faults";
import { leaseServiceOf, type LeaseService, type LeaseServiceOfEngine } from "@muster/proto";
import { isEngineId } from "../config.ts";

export type RouteDeps = {
  /** Id of this engine. */
  readonly engine: string;
  /** What answers for it. */
  readonly own: Handlers<typeof LeaseService>;
  /** What answers for another one. */
  readonly other: (engine: string) => Client<LeaseServiceOfEngine>;
  readonly nowMs: () => number;
};

/** Methods whose requests name an engine. */
type Routed =
  "orderLease" | "renewLease" | "endLease" | "cleanupResources" | "getCleanup" | "getEngine" | "getCounters";
type Own = Pick<Handlers<typeof LeaseService>, Routed>;
type Requests = { readonly [Method in Routed]: Parameters<Own[Method]>[0] };
type Replies = { readonly [Method in Routed]: Awaited<ReturnType<Own[Method]>> };
/** What an engine answers by, its own or another's. */
type EngineMethods = {
  readonly [Method in Routed]: (
    request: Requests[Method],
    call: CallContext & { readonly timeoutMs: number },
  ) => Promise<Replies[Method]>;
};

const RETRY_MS = 1000;

/** What names another engine is answered by that one, and what names one that nobody serves says so before its caller gives up. */
export function routeHandlers({ engine: here, own, other, nowMs }: RouteDeps): Handlers<typeof LeaseService> {
  const routed =
    <Method extends Routed>(method: Method, engineOf: (request: Requests[Method]) => string | null | undefined) =>
    async (request: Requests[Method], { deadlineMs, pageBytes, signal }: CallContext): Promise<Replies[Method]> => {
      const timeoutMs = Math.max(1, (deadlineMs - nowMs()) / 2);
      const ask = (answering: EngineMethods) =>
        answering[method](request, { deadlineMs, pageBytes, signal, timeoutMs });
      const engine = engineOf(request) ?? "";
      // What is no id of any engine is refused like what names none.
      if (engine === "" || engine === here || !isEngineId(engine)) return ask(own);
      try {
        return await ask(other(engine));
      } catch (error) {
        const fault = faultOf(error);
        // Of its own dependencies, and of its leader, the other engine says itself what is away.
        if (fault?.code !== "unavailable" || fault.dependency !== leaseServiceOf(engine).area) throw error;
        const dependency = `engine "${engine}", which nobody serves now,`;
        return throwFault({ code: "unavailable", dependency, retryAfterMs: RETRY_MS }, { cause: error });
      }
    };
  return {
    ...own,
    orderLease: routed("orderLease", ({ order }) => order?.engine),
    renewLease: routed("renewLease", ({ renewal }) => renewal?.engine),
    endLease: routed("endLease", ({ end }) => end?.engine),
    cleanupResources: routed("cleanupResources", ({ engine }) => engine),
    getCleanup: routed("getCleanup", ({ engine }) => engine),
    getEngine: routed("getEngine", ({ engine }) => engine),
    getCounters: routed("getCounters", ({ engine }) => engine),
  };
}

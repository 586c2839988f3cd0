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

/** What an engine answers by, its own or another's. */
type Answering = Handlers<typeof LeaseService> | Client<LeaseServiceOfEngine>;

const RETRY_MS = 1000;

/** What names another engine is answered by that one, and what names one that nobody serves says so before its caller gives up. */
export function routeHandlers({ engine: here, own, other, nowMs }: RouteDeps): Handlers<typeof LeaseService> {
  const route = async <Reply>(
    engine: string | null | undefined,
    { deadlineMs, signal }: CallContext,
    ask: (answering: Answering, call: CallContext & { readonly timeoutMs: number }) => Promise<Reply>,
  ): Promise<Reply> => {
    const timeoutMs = Math.max(1, (deadlineMs - nowMs()) / 2);
    const call = { deadlineMs, signal, timeoutMs };
    // What is no id of any engine is refused like what names none.
    if (engine === undefined || engine === null || engine === "" || engine === here || !isEngineId(engine))
      return ask(own, call);
    try {
      return await ask(other(engine), call);
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
    orderLease: (request, context) =>
      route(request.order?.engine, context, (engine, call) => engine.orderLease(request, call)),
    renewLease: (request, context) =>
      route(request.renewal?.engine, context, (engine, call) => engine.renewLease(request, call)),
    endLease: (request, context) =>
      route(request.end?.engine, context, (engine, call) => engine.endLease(request, call)),
    cleanupResources: (request, context) =>
      route(request.engine, context, (engine, call) => engine.cleanupResources(request, call)),
    getCleanup: (request, context) =>
      route(request.engine, context, (engine, call) => engine.getCleanup(request, call)),
    getEngine: (request, context) => route(request.engine, context, (engine, call) => engine.getEngine(request, call)),
    getCounters: (request, context) =>
      route(request.engine, context, (engine, call) => engine.getCounters(request, call)),
  };
}

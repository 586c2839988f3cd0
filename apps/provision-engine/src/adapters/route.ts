import type { CallContext, Client, Handlers } from "@muster/bus";
import { faultOf, throwFault } from "@muster/faults";
import type { LeaseService, LeaseServiceOfEngine } from "@muster/proto";
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

const RETRY_MS = 1000;

/** What names another engine is answered by that one, and what names one that nobody serves says so before its caller gives up. */
export function routeHandlers({ engine: here, own, other, nowMs }: RouteDeps): Handlers<typeof LeaseService> {
  const route = async <Reply>(
    engine: string | null | undefined,
    { deadlineMs, signal }: CallContext,
    answer: () => Promise<Reply>,
    ask: (
      service: Client<LeaseServiceOfEngine>,
      options: { readonly timeoutMs: number; readonly signal: AbortSignal },
    ) => Promise<Reply>,
  ): Promise<Reply> => {
    // What is no id of any engine is refused like what names none.
    if (engine === undefined || engine === null || engine === "" || engine === here || !isEngineId(engine))
      return answer();
    const timeoutMs = Math.max(1, (deadlineMs - nowMs()) / 2);
    try {
      return await ask(other(engine), { timeoutMs, signal });
    } catch (error) {
      if (faultOf(error)?.code !== "unavailable") throw error;
      const dependency = `engine "${engine}", which nobody serves now,`;
      return throwFault({ code: "unavailable", dependency, retryAfterMs: RETRY_MS }, { cause: error });
    }
  };
  return {
    ...own,
    orderLease: (request, call) =>
      route(
        request.order?.engine,
        call,
        () => own.orderLease(request, call),
        (service, options) => service.orderLease(request, options),
      ),
    renewLease: (request, call) =>
      route(
        request.renewal?.engine,
        call,
        () => own.renewLease(request, call),
        (service, options) => service.renewLease(request, options),
      ),
    endLease: (request, call) =>
      route(
        request.end?.engine,
        call,
        () => own.endLease(request, call),
        (service, options) => service.endLease(request, options),
      ),
    cleanupResources: (request, call) =>
      route(
        request.engine,
        call,
        () => own.cleanupResources(request, call),
        (service, options) => service.cleanupResources(request, options),
      ),
    getCleanup: (request, call) =>
      route(
        request.engine,
        call,
        () => own.getCleanup(request, call),
        (service, options) => service.getCleanup(request, options),
      ),
    getEngine: (request, call) =>
      route(
        request.engine,
        call,
        () => own.getEngine(request, call),
        (service, options) => service.getEngine(request, options),
      ),
    getCounters: (request, call) =>
      route(
        request.engine,
        call,
        () => own.getCounters(request, call),
        (service, options) => service.getCounters(request, options),
      ),
  };
}

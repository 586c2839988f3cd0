import { throwFault } from "@muster/faults";
import { SOURCES } from "../domain/order-sources.ts";
import type { TellDeps } from "../lead/tell-lease.ts";

type Tell = TellDeps["feedback"];

const RETRY_MS = 60_000;

/** Tells each answer where its order came from. One of a controller is told to that alone: while none is configured it rejects with unavailable, and waits. */
export function routeAnswers(overNats: Tell, controller: Tell | undefined): Tell {
  return async (answer) => {
    if (answer.source !== SOURCES.controller) return overNats(answer);
    if (controller !== undefined) return controller(answer);
    const dependency = "the controller that the order came from (PROVISION_HTTP_URL is not set)";
    return throwFault({ code: "unavailable", dependency, retryAfterMs: RETRY_MS });
  };
}

import { publishEvent, type Bus } from "@muster/bus";
import { throwFault } from "@muster/faults";
import { muster, subjects } from "@muster/proto";
import { SOURCES } from "../domain/lease.ts";
import type { ReportDeps } from "../lead/report-lease.ts";
import { toWireResult } from "./messages.ts";

type SendFeedback = ReportDeps["feedback"];

const RETRY_MS = 60_000;

/** Publishes feedback to NATS; the stream drops repetitions within its deduplication window. */
export function feedbackOver(bus: Bus, engine: string): SendFeedback {
  const { LeaseAnswered } = muster.provision.v1;
  return async ({ id, createdNs, number, result, deleted }) => {
    const message = { engine, id, result: result === undefined ? null : toWireResult(result), deleted };
    await publishEvent(bus, subjects.leaseAnswered(id), LeaseAnswered, message, {
      messageId: `${engine}.${id}.${createdNs ?? ""}.${number}`,
    });
  };
}

/** Routes feedback to the source of its order. Without a configured controller, feedback for a controller rejects with unavailable and is retried. */
export function routeAnswers(overNats: SendFeedback, controller: SendFeedback | undefined): SendFeedback {
  return async (answer) => {
    if (answer.source !== SOURCES.controller) return overNats(answer);
    if (controller !== undefined) return controller(answer);
    const dependency = "the controller that the order came from (PROVISION_HTTP_URL is not set)";
    return throwFault({ code: "unavailable", dependency, retryAfterMs: RETRY_MS });
  };
}

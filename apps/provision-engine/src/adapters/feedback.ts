import { publishEvent, type Bus } from "@muster/bus";
import { throwFault } from "@muster/faults";
import { muster, subjects } from "@muster/proto";
import { SOURCES } from "../domain/lease.ts";
import type { ReportDeps, LeaseFeedback } from "../lead/report-lease.ts";
import { toWireResult } from "./messages.ts";
import { toJsonResult } from "./controller-messages.ts";
import type { Controller, ControllerAnswer } from "./controller.ts";

type SendFeedback = ReportDeps["feedback"];

const RETRY_MS = 60_000;

/** Publishes feedback to NATS; the stream drops repetitions within its deduplication window. */
export function makeBusFeedback(bus: Bus, engine: string): SendFeedback {
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

/** The Feedbacker for orders of a controller. Rejects with invalid_request if the controller refuses the feedback, and as controller calls do. */
type HttpFeedback = {
  /** Sends Feedback, and then Deleted. */
  send(answer: LeaseFeedback, signal: AbortSignal): Promise<void>;
  /** The UpdateStats call of the Feedbacker. */
  updateStats(stats: object, signal: AbortSignal): Promise<void>;
};

/** Ids that URLs cannot have as a path segment, even escaped. */
const UNADDRESSABLE_IDS: readonly string[] = ["", ".", ".."];
const GONE: readonly number[] = [404, 410];
const REASON_CHARACTERS = 200;

export function openHttpFeedback(controller: Controller, engine: string): HttpFeedback {
  const put = async (path: string, body: object, isFine: readonly number[], signal: AbortSignal): Promise<void> => {
    const answer = await controller.call({ method: "PUT", path: `engines/${engine}/${path}`, body }, signal);
    const { status } = answer;
    if ((status < 200 || status > 299) && !isFine.includes(status)) refused(path, answer);
  };
  return {
    send: async ({ id, number, result, deleted }, signal) => {
      if (UNADDRESSABLE_IDS.includes(id))
        throwFault({ code: "invalid_request", field: "id", reason: `"${id}" cannot be part of a URL path` });
      const name = encodeURIComponent(id);
      if (result !== undefined) await put(`orders/${name}/result`, { number, ...toJsonResult(result) }, [], signal);
      // An order that is missing in the controller counts as deleted.
      if (deleted) await put(`orders/${name}/deleted`, { number }, GONE, signal);
    },
    updateStats: (stats, signal) => put("stats", stats, [], signal),
  };
}

function refused(path: string, { status, text = "" }: ControllerAnswer): never {
  const reason = `the controller refuses it with status ${status}: ${text.slice(0, REASON_CHARACTERS)}`;
  return throwFault({ code: "invalid_request", field: path, reason });
}

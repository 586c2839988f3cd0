import { throwFault } from "@muster/faults";
import type { Answer } from "../lead/report-lease.ts";
import { toJsonResult } from "./controller-messages.ts";
import type { Controller, ControllerAnswer } from "./controller.ts";

/** The Feedbacker for orders of a controller. Rejects with invalid_request if the controller refuses the feedback, and as controller calls do. */
export type HttpFeedback = {
  /** Sends Feedback, and then Deleted. */
  send(answer: Answer, signal: AbortSignal): Promise<void>;
  /** UpdateStats. */
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
      // An order that the controller does not know counts as deleted.
      if (deleted) await put(`orders/${name}/deleted`, { number }, GONE, signal);
    },
    updateStats: (stats, signal) => put("stats", stats, [], signal),
  };
}

function refused(path: string, { status, text = "" }: ControllerAnswer): never {
  const reason = `the controller refuses it with status ${status}: ${text.slice(0, REASON_CHARACTERS)}`;
  return throwFault({ code: "invalid_request", field: path, reason });
}

import { throwFault } from "@muster/faults";
import type { Answer } from "../lead/report-lease.ts";
import { toJsonResult } from "./controller-messages.ts";
import type { Controller, ControllerAnswer } from "./controller.ts";

/** The Feedbacker of orders that came from a controller. Each rejects with invalid_request where the controller refuses what it is told, and as calls to it do. */
export type HttpFeedback = {
  /** Feedback, and then Deleted. */
  send(answer: Answer, signal: AbortSignal): Promise<void>;
  /** UpdateStats. */
  updateStats(stats: object, signal: AbortSignal): Promise<void>;
};

/** Ids that a URL drops from its path, also when they are escaped. */
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
        throwFault({ code: "invalid_request", field: "id", reason: `"${id}" cannot stand in a path` });
      const name = encodeURIComponent(id);
      if (result !== undefined) await put(`orders/${name}/result`, { number, ...toJsonResult(result) }, [], signal);
      // What it does not know any more is deleted there, too.
      if (deleted) await put(`orders/${name}/deleted`, { number }, GONE, signal);
    },
    updateStats: (stats, signal) => put("stats", stats, [], signal),
  };
}

function refused(path: string, { status, text = "" }: ControllerAnswer): never {
  const reason = `the controller refuses it with ${status}: ${text.slice(0, REASON_CHARACTERS)}`;
  return throwFault({ code: "invalid_request", field: path, reason });
}

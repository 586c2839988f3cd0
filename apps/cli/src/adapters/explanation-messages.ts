import { muster } from "@muster/proto";
import type { Explained } from "../domain/build-explanation.ts";
import type { DemandScaling } from "../domain/scaled-node.ts";
import { pick } from "./message-fields.ts";
import { explanationFromMessage } from "./messages.ts";
import { demandFromMessage } from "./node-messages.ts";

/** The answer of the service that decides. */
export function explainedFromMessage(message = muster.explain.v1.Explanation.create()): Explained {
  const { reasons, reservation, scaling } = message;
  const [reason = { code: "UNKNOWN", message: "the service gives no reason", next: "" }, ...more] = reasons.map(
    (each) => pick(each, "code", "message", "next"),
  );
  return {
    ...pick(message, "kind", "name", "phase", "sinceMs", "isOver"),
    ...{ reason, more },
    reservation: reservation && explanationFromMessage(reservation),
    scaling: scaling && scalingFromMessage(scaling),
  };
}

function scalingFromMessage({ demand, trouble }: muster.explain.v1.Scaling): DemandScaling {
  return demand === undefined ? { state: "unanswered", trouble } : demandFromMessage(demand);
}

import { muster } from "@muster/proto";
import { pick } from "./message-fields.ts";
import { demandFromMessage, type DemandScaling } from "./node-messages.ts";
import { explanationFromMessage } from "./reservation-messages.ts";

/** The explanation of a service. `reason` decides the phase; `more` lists observations such as services that did not answer. */
export type ExplainedReservation = ReturnType<typeof explainedFromMessage>;

export function explainedFromMessage(message = muster.explain.v1.Explanation.create()) {
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

import { muster } from "@muster/proto";
import { pickFields } from "./message-fields.ts";
import { toDemandScaling, type DemandScaling } from "./node-messages.ts";
import { toExplanation } from "./reservation-messages.ts";

/** The explanation of a service. `reason` decides the phase; `more` lists observations such as services that did not answer. */
export type ExplainedReservation = ReturnType<typeof toExplainedReservation>;

export function toExplainedReservation(message = muster.explain.v1.Explanation.create()) {
  const { reasons, reservation, scaling } = message;
  const [reason = { code: "UNKNOWN", message: "the service gives no reason", next: "" }, ...more] = reasons.map(
    (each) => pickFields(each, "code", "message", "next"),
  );
  return {
    ...pickFields(message, "kind", "name", "phase", "sinceMs", "isOver"),
    ...{ reason, more },
    reservation: reservation && toExplanation(reservation),
    scaling: scaling && scalingFromMessage(scaling),
  };
}

function scalingFromMessage({ demand, trouble }: muster.explain.v1.Scaling): DemandScaling {
  return demand === undefined ? { state: "unanswered", trouble } : toDemandScaling(demand);
}

import { adviceFor, because, type Explanation } from "./build-explanation.ts";
import { plain } from "./build-table.ts";
import type { ReservationExplanation } from "./reservation.ts";
import { endOf, phaseOf, type Work } from "./work.ts";

/**
 * Why a session is where it is: FINISHED, CANCELLING, NOT_TAKEN_YET, COMPONENTS_NOT_READY, RUNNING, CLEANING_UP, or the ledger's word for why the reservation
 * waits. `reservation` is undefined where the ledger holds none for the session.
 */
export function explainSession(session: Work, reservation: ReservationExplanation | undefined): Explanation {
  const end = endOf(session);
  if (end !== undefined) return explainEnd(session, `${end.reason} ${end.description}`.trim());
  const waits = plain(session.waitingBecause);
  if (session.cancelRequested) {
    return because("CANCELLING", `its cancellation is under way${waits === "" ? "" : `: ${waits}`}`);
  }
  switch (phaseOf(session)) {
    case "QUEUE":
      return explainQueue(session, reservation);
    case "ACCEPT":
    case "PROVISION":
      // Of a component that lost its machine: what another one waits for.
      if (reservation !== undefined && reservation.code !== "") return explainReserved(reservation);
      return because("COMPONENTS_NOT_READY", waits === "" ? "its pods are being started" : waits);
    default:
      return waits === ""
        ? because("RUNNING", "its driver runs; the session ends when the driver does")
        : because("CLEANING_UP", waits);
  }
}

function explainEnd(session: Work, why: string): Explanation {
  const phase = phaseOf(session);
  if (phase === "DONE") return because("FINISHED", "it is over: the driver ended with 0");
  return { ...because("FINISHED", `it is over, ${phase}: ${plain(why)}`), next: `muster logs ${session.name}` };
}

function explainQueue(
  { waitingBecause, waitingCode = "" }: Work,
  reservation: ReservationExplanation | undefined,
): Explanation {
  if (reservation === undefined || reservation.code === "") {
    const waits = plain(waitingBecause);
    if (waitingCode !== "")
      return { code: waitingCode, message: waits, next: adviceFor({ code: waitingCode, pools: [] }) };
    return because("NOT_TAKEN_YET", waits === "" ? "no executor has asked for its machines yet" : waits);
  }
  return explainReserved(reservation);
}

function explainReserved(reservation: ReservationExplanation): Explanation {
  return { code: reservation.code, message: plain(reservation.message), next: adviceFor(reservation) };
}

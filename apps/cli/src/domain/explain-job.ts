import { adviceFor, because, type Explanation } from "./build-explanation.ts";
import { plain } from "./build-table.ts";
import { plural } from "./plural.ts";
import type { ReservationExplanation } from "./reservation.ts";
import { endOf, phaseOf, type Work } from "./work.ts";

/**
 * Why a job is where it is: FINISHED, CANCELLING, SUSPENDED, RESTARTING, NOT_TAKEN_YET, MEMBERS_NOT_READY, MEMBER_WAITS, RUNNING, or the ledger's word for why its
 * gang waits. `reservation` is that of the gang, or of a single member that waits for a machine of its own.
 */
export function explainJob(job: Work, reservation: ReservationExplanation | undefined): Explanation {
  const end = endOf(job);
  if (end !== undefined) return explainEnd(job, plain([end.reason, end.description].filter(Boolean).join(": ")));
  if (job.cancelRequested) return because("CANCELLING", "its cancellation is under way");
  const waits = plain(job.waitingBecause);
  const said = plain(job.events.at(-1)?.description ?? "");
  switch (phaseOf(job)) {
    case "QUEUED":
      return explainQueue(job.events.at(-1)?.reason ?? "", waits, reservation);
    case "SUSPENDED":
      return {
        ...because("SUSPENDED", "it is suspended, and holds no machines"),
        next: "set spec.runPolicy.suspend to false",
      };
    case "RESTARTING":
      // What the status says was so when it was written; of a pause the reply says what is left.
      return because("RESTARTING", waits || said || "members that failed are run again");
    default:
      return explainMembers(job, waits, reservation);
  }
}

function explainEnd(job: Work, why: string): Explanation {
  if (job.outcome === "success") return because("FINISHED", `it is over: ${why}`);
  if (job.outcome === "cancelled") return because("FINISHED", `it is over, CANCELLED: ${why}`);
  const failed = job.components.find(({ state }) => state === "FAILED");
  const next = failed === undefined ? "" : `muster logs ${job.kind}/${job.name} ${failed.name}`;
  return { ...because("FINISHED", `it is over, FAILED: ${why}`), next };
}

function explainQueue(reason: string, waits: string, reservation: ReservationExplanation | undefined): Explanation {
  if (reservation === undefined || reservation.code === "") {
    // The ledger keeps nothing of what it refused: the controller remembers the reason, and asks again from time to time.
    return because(
      reason === "" ? "NOT_TAKEN_YET" : reason,
      waits === "" ? "nobody has asked for its machines yet" : waits,
    );
  }
  return { code: reservation.code, message: plain(reservation.message), next: adviceFor(reservation) };
}

function explainMembers(job: Work, waits: string, reservation: ReservationExplanation | undefined): Explanation {
  if (reservation !== undefined && reservation.code !== "") {
    const names = reservation.reservation.needs.map(({ component }) => component).join(", ");
    const message = `${names} waits for a machine: ${plain(reservation.message)}`;
    return { code: "MEMBER_WAITS", message, next: adviceFor(reservation) };
  }
  const running = job.components.filter(({ state }) => state !== "PENDING");
  const pending = job.components.filter(({ state }) => state === "PENDING");
  if (waits !== "") {
    return { ...because("MEMBERS_NOT_READY", waits), next: `muster describe ${job.kind} ${job.name}` };
  }
  if (phaseOf(job) === "STARTING" || running.length === 0) {
    return because("MEMBERS_NOT_READY", "its machines are reserved; its pods are being started");
  }
  const rest =
    pending.length === 0
      ? ""
      : `; ${plural(pending.length, "member")} not started yet: ${pending.map(({ name }) => name).join(", ")}`;
  return because("RUNNING", `its members run${rest}`);
}

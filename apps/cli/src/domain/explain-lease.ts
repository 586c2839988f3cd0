import type { Reason as Explanation } from "@muster/ledger-client/explanation";
import { explainOwner } from "./build-explanation.ts";
import { describeEnd, describeUsers, whyOf } from "./build-lease-views.ts";
import type { Lease } from "./lease.ts";
import type { ReservationExplanation } from "./reservation.ts";

/** Why a lease is in its phase. `reservation`: that of the machines that it waits for. */
export function explainLease(
  lease: Lease,
  reservation: ReservationExplanation | undefined,
  nowMs: number,
): Explanation {
  const { order, phase, ending, waitingBecause } = lease;
  const { id } = order;
  switch (phase) {
    case "ORDERED":
      return waitingBecause === ""
        ? { code: "ORDERED", message: "it was accepted, and is begun next", next: ENGINE }
        : { code: "WAITING", message: waitingBecause, next: "" };
    case "PROVISIONING":
      if (reservation !== undefined && reservation.code !== "") return explainOwner(reservation);
      return waitingBecause === ""
        ? { code: "PROVISIONING", message: "it is being made", next: "" }
        : { code: "NOT_YET", message: `it is being made, and tried again: ${waitingBecause}`, next: "" };
    case "ACTIVE":
      if (waitingBecause !== "")
        return {
          code: "TROUBLED",
          message: `it was active, and a part of it is in trouble: ${waitingBecause}`,
          next: "the engine recreates what it can; order the rest again",
        };
      return {
        code: "ACTIVE",
        message: `it is complete; it ends ${describeEnd(lease, nowMs)}`,
        next: `\`muster lease renew ${id} --for 1h\` lets it end later`,
      };
    case "DECOMMISSIONING":
      return explainEnding(lease, nowMs);
    case "ENDED":
      return {
        code: ending?.cause ?? "ENDED",
        message: `${lease.result === undefined ? "it never became ACTIVE, and all of it is taken down" : "all of it is taken down"}: ${whyOf(lease)}`,
        next:
          ending?.cause === "CRASHED"
            ? "fix what ends in it before you order another one, which would end likewise"
            : "order another one: an id is used once",
      };
    case "FAILED":
      return {
        code: "FAILED",
        message: whyOf(lease),
        next: "its order, sent again, is tried again: the same file with this id as metadata.name",
      };
    default:
      return { code: phase, message: "this version of the command does not know the phase", next: "" };
  }
}

/** A wait for other leases and a retry are no failure. */
function explainEnding(lease: Lease, nowMs: number): Explanation {
  const { ending, isStuck, usedBy, waitingBecause } = lease;
  const code = ending?.cause ?? "ENDING";
  if (isStuck)
    return {
      code: "NOT_TAKEN_DOWN",
      message: `what it had cannot be taken down, and that is tried again: ${whyOf(lease)}`,
      next: "fix the cause; `muster doctor` checks the services",
    };
  if (usedBy.count > 0) {
    const cause = [code, ending?.message ?? ""].filter((each) => each !== "").join(": ");
    return {
      code: "IN_USE",
      message: `it ends (${cause}), and stays until what uses it is gone: ${describeUsers(usedBy, nowMs)}`,
      next: `wait, or end each of them: \`muster lease end ${usedBy.some[0]?.id ?? "ID"}\``,
    };
  }
  const how = waitingBecause === "" ? "it is taken down" : "it is taken down, and that is tried again";
  return { code, message: `${how}: ${whyOf(lease)}`, next: "" };
}

const ENGINE = "`muster doctor` says whether an engine runs";

/** The explanation for people. */
export function buildLeaseExplanation({ order, phase }: Lease, { code, message, next }: Explanation): string[] {
  return [
    `lease ${order.id} ${phase}${code === phase ? "" : `: ${code}`}`,
    `  ${message}`,
    ...(next === "" ? [] : [`next: ${next}`]),
  ];
}

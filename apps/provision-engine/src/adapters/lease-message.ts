import { timestampOf } from "@muster/leases";
import type { muster, PropertiesOf } from "@muster/proto";
import { decideAdmission } from "../domain/decide-admission.ts";
import { decideRelease } from "../domain/decide-release.ts";
import { isStuck } from "../domain/decide-stuck.ts";
import { decideReference, toReferenced } from "../domain/decide-take-over.ts";
import type { Surroundings } from "../domain/surroundings.ts";
import { readClaim } from "../types/workload-types.ts";
import type { Holdings } from "../holdings/holdings.ts";
import type { Stored } from "../lead/pass.ts";
import { phaseOf, toWireRecord } from "./messages.ts";

export type SeenLeases = {
  readonly holdings: Pick<Holdings, "around" | "find">;
  readonly nowNs: () => bigint;
};

type Message<Name extends "Lease" | "LeaseUser"> = PropertiesOf<(typeof muster.provision.v1)[Name]>;

/** A lease as replies show it, with facts that are not in its record: what it waits for, and whether it needs the operator. */
export function leaseMessage(seen: SeenLeases, { record, revision }: Stored): Message<"Lease"> {
  const users = record.phase === "DECOMMISSIONING" ? seen.holdings.around(record.order).users : NO_USERS;
  return {
    record: toWireRecord(record),
    revision,
    waitingBecause: explainWait(seen, record, users),
    stuck: isStuck(record, seen.nowNs()),
    usedBy: users.some.flatMap((id) => userMessage(seen, id)),
    usedByCount: users.count,
  };
}

const NO_USERS: Surroundings["users"] = { some: [], count: 0 };

function userMessage({ holdings }: SeenLeases, id: string): Message<"LeaseUser">[] {
  const found = holdings.find(id);
  if (found === undefined) return [];
  return [{ id, type: found.order.type, phase: phaseOf(found), expiresAt: timestampOf(found.expiresAtNs) }];
}

function explainWait(
  { holdings, nowNs }: SeenLeases,
  { order, phase, trouble }: Stored["record"],
  users: Surroundings["users"],
): string {
  if (phase === "DECOMMISSIONING") {
    const release = decideRelease({ users });
    return release.kind === "later" ? release.because : trouble;
  }
  if (phase !== "ORDERED") return trouble;
  // Shows the referenced lease while it is being provisioned; whether it may be taken over is decided after that.
  const older = order.reference === undefined ? undefined : holdings.find(order.reference);
  const reference = older && decideReference(order, toReferenced(order, older, true), nowNs());
  if (reference?.kind === "later") return reference.because;
  const claim = readClaim(order);
  const admission = claim.ok ? decideAdmission(claim.value, holdings.around(order)) : undefined;
  return admission?.kind === "later" ? admission.because : "";
}

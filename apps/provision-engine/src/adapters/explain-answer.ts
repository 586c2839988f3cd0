import { askMachines, explanationMessage, NOTHING_ASKED, type ExplainCalls } from "@muster/ledger-client";
import type { muster } from "@muster/proto";
import { explainLease, phaseOfLease } from "../domain/explain-lease.ts";
import type { LeaseRecord } from "../domain/lease.ts";
import { leaseOwner, MACHINE, OWNER_KIND } from "../types/machine.ts";
import { seeLease, type SeenLeases } from "./lease-message.ts";

/** Why the lease is in its phase now. Only a lease of machines that is being provisioned may wait for the ledger. */
export async function explainAnswer(
  leases: SeenLeases,
  calls: ExplainCalls,
  record: LeaseRecord,
): Promise<muster.explain.v1.Explanation.$Properties> {
  const { order, phase } = record;
  const waitsForLedger = order.type === MACHINE.type && phase === "PROVISIONING";
  const asked = waitsForLedger ? await askMachines(calls, leaseOwner(record)) : NOTHING_ASKED;
  const nowMs = Number(leases.nowNs() / 1_000_000n);
  const isOver = phase === "ENDED" || phase === "FAILED";
  const reason = explainLease(seeLease(leases, record), asked.seen, nowMs);
  return explanationMessage({ kind: OWNER_KIND, name: order.id, ...phaseOfLease(record), isOver }, reason, asked);
}

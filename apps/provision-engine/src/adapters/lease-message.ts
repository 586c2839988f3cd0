import { findFault } from "@muster/faults";
import { toTimestamp } from "@muster/leases";
import type { muster, PropertiesOf } from "@muster/proto";
import { askMachines, toWireExplanation, NO_ANSWERS, type ExplainCalls } from "@muster/ledger-client";
import { decideAdmission, decideDecommission } from "../domain/decide-admission.ts";
import { describeReason } from "../domain/describe-reason.ts";
import { isStuck } from "../domain/decide-retry.ts";
import { decideReference, toReferenced } from "../domain/decide-take-over.ts";
import { type LeaseSeen, type LeaseUsers, explainLease, getLeasePhase } from "../domain/explain-lease.ts";
import type { LeaseRecord } from "../domain/lease.ts";
import type { ClaimSurroundings } from "../domain/claim.ts";
import { readClaim } from "../types/workload-types.ts";
import type { LeaseRegistry } from "../holdings/lease-registry.ts";
import type { StoredLease } from "../holdings/records.ts";
import { toWirePhase, toWireRecord } from "./messages.ts";
import { buildLeaseOwner, MACHINE, OWNER_KIND } from "../types/machine.ts";

type SeenLeases = {
  readonly holdings: Pick<LeaseRegistry, "around" | "find">;
  readonly nowNs: () => bigint;
};

type Message<Name extends "Lease" | "LeaseUser"> = PropertiesOf<(typeof muster.provision.v1)[Name]>;

export function toWireLease(leases: SeenLeases, { record, revision }: StoredLease): Message<"Lease"> {
  const { waitingBecause, isStuck: stuck, users } = toLeaseSeen(leases, record);
  return {
    record: toWireRecord(record),
    revision,
    waitingBecause,
    stuck,
    usedBy: users.some.map(userMessage),
    usedByCount: users.count,
  };
}

/** A lease with facts beyond its record: the reason for its wait, and whether it needs the operator. */
function toLeaseSeen(leases: SeenLeases, record: LeaseRecord): LeaseSeen {
  const { holdings, nowNs } = leases;
  const users = record.phase === "DECOMMISSIONING" ? holdings.around(record.order).users : NO_USERS;
  return {
    record,
    waitingBecause: explainWait(leases, record, users),
    isStuck: isStuck(record, nowNs()),
    users: { count: users.count, some: users.some.flatMap((id) => holdings.find(id) ?? []) },
  };
}

const NO_USERS: ClaimSurroundings["users"] = { some: [], count: 0 };

function userMessage(user: LeaseUsers["some"][number]): Message<"LeaseUser"> {
  const { order, expiresAtNs } = user;
  return { id: order.id, type: order.type, phase: toWirePhase(user), expiresAt: toTimestamp(expiresAtNs) };
}

function explainWait(
  { holdings, nowNs }: SeenLeases,
  { order, phase, trouble }: LeaseRecord,
  users: ClaimSurroundings["users"],
): string {
  if (phase === "DECOMMISSIONING") {
    const release = decideDecommission({ users });
    return release.kind === "later" ? describeReason(release.because) : trouble;
  }
  if (phase !== "ORDERED") return trouble;
  // Shows the referenced lease while it is being provisioned. Whether it may be taken over is decided afterwards.
  const older = order.reference === undefined ? undefined : holdings.find(order.reference);
  const reference = older && decideReference(order, toReferenced(order, older, true), nowNs());
  if (reference?.kind === "later") return describeReason(reference.because);
  const claim = readClaim(order);
  const admission = claim.ok ? decideAdmission(claim.value, holdings.around(order)) : undefined;
  return admission?.kind === "later" ? describeReason(admission.because) : "";
}

/** The calls to other services for an explanation. */
export type LeaseExplainCalls = ExplainCalls & {
  /** Explains why a lease of machines has no queue; undefined: it has a queue, or needs none. */
  readonly whyNoQueue: (record: LeaseRecord, signal: AbortSignal) => Promise<string | undefined>;
};

/** Explains the current phase of the lease. Only a lease of machines that is being provisioned may wait for the ledger. */
export async function explainAnswer(
  leases: SeenLeases,
  calls: LeaseExplainCalls,
  record: LeaseRecord,
): Promise<muster.explain.v1.Explanation.$Properties> {
  const { order, phase } = record;
  const waitsForLedger = order.type === MACHINE.type && phase === "PROVISIONING";
  const asked = waitsForLedger ? await askMachines(calls, buildLeaseOwner(record)) : NO_ANSWERS;
  const isUnqueued = waitsForLedger && asked.reservation === undefined && asked.ledgerTrouble === undefined;
  const whyNoQueue = isUnqueued ? await askQueue(calls, record) : undefined;
  const nowMs = Number(leases.nowNs() / 1_000_000n);
  const isOver = phase === "ENDED" || phase === "FAILED";
  const seen = toLeaseSeen(leases, record);
  const reason = explainLease({ ...seen, ...(whyNoQueue !== undefined && { whyNoQueue }) }, asked.seen, nowMs);
  return toWireExplanation({ kind: OWNER_KIND, name: order.id, ...getLeasePhase(record), isOver }, reason, asked);
}

/** Time limit of the ledger calls of an explanation. */
const QUEUE_TIMEOUT_MS = 1000;

async function askQueue(calls: LeaseExplainCalls, record: LeaseRecord): Promise<string | undefined> {
  try {
    return await calls.whyNoQueue(record, AbortSignal.timeout(QUEUE_TIMEOUT_MS));
  } catch (error) {
    if (findFault(error) === undefined) throw error;
    return undefined;
  }
}

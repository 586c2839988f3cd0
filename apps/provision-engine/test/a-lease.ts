import { describeReason } from "../src/domain/describe-reason.ts";
import type { LeaseReason } from "../src/domain/lease-reason.ts";
import type { Order } from "@muster/leases";
import { NO_UNITS, type ClaimSurroundings } from "../src/domain/claim.ts";
import type { LeaseRecord } from "../src/domain/lease.ts";

/** Data of an order for each counted type. */
export const DATA_BY_TYPE: Readonly<Record<string, object>> = {
  network: { name: "net" },
  volume: { size: 1, type: "ssd" },
  zdb: { size: 2, mode: "user", disk_type: "hdd" },
  container: { image: "i", capacity: { cpu: 1, memory: 1024, disk_size: 512 } },
  kubernetes: { size: 1 },
  machine: { pool: "p", machines: 1 },
  debug: {},
};

/** A lease for tests: active, of a debug workload, completely reported. */
export function makeLeaseRecord({
  order = {},
  ...changes
}: Partial<Omit<LeaseRecord, "order">> & { order?: Partial<Order> } = {}): LeaseRecord {
  const ordered = makeOrder(order);
  return {
    order: ordered,
    source: "nats",
    phase: "ACTIVE",
    run: 1,
    result: undefined,
    expiresAtNs: ordered.createdNs + ordered.durationNs,
    renewal: undefined,
    ending: undefined,
    attempts: 0,
    notBeforeNs: 0n,
    trouble: "",
    feedback: { result: false, deleted: false, number: 0, attempts: 0, refusals: 0, repeats: 0, notBeforeNs: 0n },
    outbox: [],
    events: 0,
    endedAtNs: undefined,
    fence: 1,
    requestId: "",
    traceparent: "",
    crashes: undefined,
    takesOver: undefined,
    madeFor: undefined,
    heir: undefined,
    orderHash: undefined,
    ...changes,
  };
}

export function makeOrder(changes: Partial<Order> = {}): Order {
  return {
    id: "1-1",
    engine: "main",
    user: "user",
    type: "debug",
    data: "{}",
    createdNs: 1_000n,
    durationNs: 1_000_000n,
    reference: undefined,
    version: 0,
    signature: new Uint8Array(64),
    signatureFormat: "muster-lease-v1",
    ...changes,
  };
}

/** The surroundings of a lease without others. */
export const ALONE: Omit<ClaimSurroundings, "held" | "capacity"> = {
  overhead: NO_UNITS,
  named: [],
  users: { some: [], count: 0 },
};

/** A decision with its reason as text. */
export function withText<Decision extends { readonly because: LeaseReason }>(
  decision: Decision,
): Omit<Decision, "because"> & { readonly because: string } {
  return { ...decision, because: describeReason(decision.because) };
}

import { retryOnConflict } from "@muster/backoff";
import { throwFault } from "@muster/faults";
import { checkDnsLabel } from "@muster/names";
import { getTraceparent } from "@muster/tracing";
import type { AuditLog } from "./adapters/audit-log.ts";
import type { FarmRecords, StoredRecord } from "./adapters/records.ts";
import type { World } from "./adapters/views.ts";
import { buildAudits } from "./domain/audit.ts";
import { refuseField, requireNone } from "./domain/check-spec.ts";
import { MAX_NAME_LENGTH, type ReplicaSet } from "./domain/replica-set.ts";
import type { Rollout } from "./domain/rollout.ts";
import type { SetAudit } from "./domain/set-plan.ts";

/** The dependencies of requests by users. */
export type RequestDeps = {
  readonly now: () => number;
  readonly newId: () => string;
  readonly sets: FarmRecords<ReplicaSet>;
  readonly rollouts: FarmRecords<Rollout>;
  readonly world: Pick<
    World,
    | "sets"
    | "set"
    | "setsOf"
    | "storedSetsOf"
    | "rollouts"
    | "rollout"
    | "rolloutsOf"
    | "observedNodes"
    | "nodesFor"
    | "occupied"
    | "podsOf"
    | "podState"
    | "onChange"
  >;
  readonly auditLog: Pick<AuditLog, "page" | "publish">;
  readonly templateHash: (set: ReplicaSet) => string;
  readonly transferMs: number;
  /** Rejects with invalid_request when the API server would refuse a pod of the set. */
  readonly check: (set: ReplicaSet) => Promise<void>;
  /** The names of all pools; undefined: the ledger does not answer. */
  readonly pools: () => Promise<readonly string[] | undefined>;
  /** The farm that owns the set; empty: unknown. */
  readonly farmOf: (set: string) => string;
};

export type StoredSet = StoredRecord<ReplicaSet>;

export type SetRequest = {
  readonly requestId: string;
  readonly name: string;
  /** Name of the client; empty: anonymous. */
  readonly by: string;
};

/** The stored set. Rejects with not_found, and with invalid_request when it is unreadable. */
export async function requireSet(deps: Pick<RequestDeps, "sets">, name: string): Promise<StoredSet> {
  requireNone(checkDnsLabel("name", name, MAX_NAME_LENGTH));
  const found = await deps.sets.get(name);
  return found === undefined
    ? throwFault({ code: "not_found", kind: "replica set", id: name })
    : requireReadable(name, found);
}

type Found = NonNullable<Awaited<ReturnType<RequestDeps["sets"]["get"]>>>;

export function requireReadable(name: string, found: Found): StoredSet {
  return "unreadable" in found ? refuseField("record", `of ${name} cannot be read: ${found.unreadable}`) : found;
}

export type SetRequestChange = { readonly next: ReplicaSet; readonly audits: readonly SetAudit[] };

/** Changes the newest record; writes no record without a change. */
export async function changeSet(
  deps: RequestDeps,
  { name, requestId }: Pick<SetRequest, "name" | "requestId">,
  change: (set: ReplicaSet) => SetRequestChange | undefined,
): Promise<StoredSet> {
  return retryOnConflict(`replica set ${name}`, async () => {
    const stored = await requireSet(deps, name);
    const wanted = change(stored.record);
    if (wanted === undefined) return { unchanged: stored };
    const traceparent = getTraceparent();
    const next = { ...wanted.next, requestId, traceparent };
    const audits = buildAudits(name, wanted.audits, { nowMs: deps.now(), traceparent, newId: deps.newId });
    return { write: () => deps.sets.change({ key: name, revision: stored.revision, next, audits }) };
  });
}

import { getTraceparent } from "@muster/tracing";
import { buildAudits, buildClientDetails } from "./domain/audit.ts";
import { checkChange, checkSpec, isSameSpec, refuseField, refuseDeleted } from "./domain/check-spec.ts";
import { findOverlap } from "./domain/find-overlap.ts";
import { NEW_SET, type ReplicaSet, type ReplicaSetSpec } from "./domain/replica-set.ts";
import type { SetAudit } from "./domain/set-plan.ts";
import {
  changeSet,
  requireReadable,
  type SetRequest,
  type RequestDeps,
  type SetRequestChange,
  type StoredSet,
} from "./request-deps.ts";

const MAX_POOLS_NAMED = 5;

type ApplyRequest = {
  readonly requestId: string;
  readonly name: string;
  readonly spec: ReplicaSetSpec;
  readonly replace: boolean;
  readonly dryRun: boolean;
  /** Name of the client; empty: anonymous. */
  readonly by: string;
};

type Applied = { readonly set: StoredSet; readonly outcome: "CREATED" | "CHANGED" | "UNCHANGED" };

/** Creates the set, or changes it to the spec. */
export async function applySet(deps: RequestDeps, request: ApplyRequest): Promise<Applied> {
  const { name, requestId, replace, dryRun, by } = request;
  const spec = checkSpec(name, request.spec);
  const found = await deps.sets.get(name);
  if (found === undefined) return create(deps, request, spec);
  const { record, revision } = requireReadable(name, found);
  refuseDeleted(record);
  if (isSameSpec(record.spec, spec)) return { set: { record, revision }, outcome: "UNCHANGED" };
  const change = (set: ReplicaSet): SetRequestChange => ({
    next: { ...set, spec: checkChange(set, spec, replace), generation: set.generation + 1 },
    audits: [{ eventType: "CHANGED", details: { ...summary(spec), ...buildClientDetails(by) } }],
  });
  const { next } = change(record);
  await checkWithCluster(deps, next, record);
  if (dryRun) return { set: { record: next, revision }, outcome: "CHANGED" };
  return { set: await changeSet(deps, { name, requestId }, change), outcome: "CHANGED" };
}

async function create(deps: RequestDeps, request: ApplyRequest, spec: ReplicaSetSpec): Promise<Applied> {
  const record = buildSet(deps, request, spec);
  await checkWithCluster(deps, record, undefined);
  if (request.dryRun) return { set: { record, revision: 0 }, outcome: "CREATED" };
  return { set: { record, revision: await deps.sets.create(request.name, record) }, outcome: "CREATED" };
}

/** Builds a new set with the audit of its creation. */
export function buildSet(deps: RequestDeps, { name, requestId, by }: SetRequest, spec: ReplicaSetSpec): ReplicaSet {
  const [nowMs, traceparent] = [deps.now(), getTraceparent()];
  const audit: SetAudit = { eventType: "CREATED", details: { ...summary(spec), ...buildClientDetails(by) } };
  return {
    ...NEW_SET,
    name,
    uid: deps.newId(),
    spec,
    outbox: buildAudits(name, [audit], { nowMs, traceparent, newId: deps.newId }),
    createdAtMs: creationTime(deps, spec, nowMs),
    requestId,
    traceparent,
  };
}

/** Makes a later set always younger, because overlapping sets yield by age and the clocks of farms differ. */
function creationTime({ world }: Pick<RequestDeps, "world">, { podId }: ReplicaSetSpec, nowMs: number): number {
  return Math.max(nowMs, ...world.setsOf(podId).map(({ createdAtMs }) => createdAtMs + 1));
}

function summary({ podId, nodeSelector, pool, replicasDesired, allocationStrategy, daemon }: ReplicaSetSpec) {
  return {
    pod_id: podId,
    ...(pool === undefined ? { node_selector: nodeSelector } : { pool }),
    ...(daemon ? { daemon } : { replicas_desired: replicasDesired }),
    // The documents use capitals.
    allocation_strategy: allocationStrategy === "static" ? "Static" : "Dynamic",
  };
}

/** Checks the spec against the cluster and other sets. */
async function checkWithCluster(deps: RequestDeps, next: ReplicaSet, before: ReplicaSet | undefined): Promise<void> {
  if (before?.spec.template !== next.spec.template || before.spec.podId !== next.spec.podId) await deps.check(next);
  if (before?.spec.pool !== next.spec.pool) await refuseUnknownPool(deps, next);
  if (next.disabled) return;
  const asks = (["podId", "nodeSelector", "pool", "daemon"] as const).some(
    (each) => before?.spec[each] !== next.spec[each],
  );
  // A set that changes its nodes counts as the youngest, whatever its age. Relabelled nodes may cause an overlap as well, for which the set is not responsible.
  await refuseOverlap(deps, asks ? withMaxAge(next) : next);
}

/** An unknown pool is probably a mistake in its name. */
export async function refuseUnknownPool({ pools }: Pick<RequestDeps, "pools">, { spec: { pool } }: ReplicaSet) {
  const known = pool === undefined ? undefined : await pools();
  if (pool === undefined || known === undefined || known.includes(pool)) return;
  const named = known.toSorted().slice(0, MAX_POOLS_NAMED).join(", ");
  refuseField(
    "spec.pool",
    `there is no pool "${pool}": the ledger has ${named}${known.length > MAX_POOLS_NAMED ? ", ..." : ""}`,
  );
}

/** Returns the set as the youngest one; a set counts as the youngest when it changes its nodes. */
export function withMaxAge(set: ReplicaSet): ReplicaSet {
  return { ...set, createdAtMs: Number.POSITIVE_INFINITY };
}

export async function refuseOverlap(deps: RequestDeps, set: ReplicaSet): Promise<void> {
  const others = await deps.world.storedSetsOf(set.spec.podId);
  const overlap = findOverlap(set, others, deps.world.observedNodes() ?? []);
  if (overlap === undefined) return;
  const { with: older, because, nodes } = overlap;
  const why = {
    "same-selector": "has the same node selector",
    "selects-everything": "one of the two selects every node",
    "same-nodes": `selects some of the same nodes, such as ${nodes.join(", ")}`,
  }[because];
  refuseField(
    "spec.node_selector",
    `replica set ${older}, which exists already, runs pod id ${set.spec.podId} too and ${why}: both would compete for nodes. Choose other nodes, another pod_id, or disable ${older}`,
  );
}

import { retryOnConflict } from "@muster/backoff";
import { throwFault, type Fault } from "@muster/faults";
import { checkDnsLabel, checkLabelKey, checkLabelValue } from "@muster/names";
import { traceparentOf } from "@muster/tracing";
import type { AuditLog } from "./adapters/audit-log.ts";
import type { Records, Stored } from "./adapters/records.ts";
import type { World } from "./adapters/views.ts";
import { buildAudits, clientDetails } from "./domain/audit.ts";
import { findOverlap } from "./domain/find-overlap.ts";
import { place } from "./domain/places.ts";
import {
  MIN_READY_SECONDS,
  MAX_NAME_LENGTH,
  NEW_SET,
  MAX_REPLICAS,
  type ReplicaSet,
  type ReplicaSetSpec,
} from "./domain/replica-set.ts";
import { mayHaveMachines } from "./domain/plan-machines.ts";
import { REQUESTED } from "./domain/plan-transfer.ts";
import type { Rollout } from "./domain/rollout.ts";
import type { Audit } from "./domain/set-plan.ts";
import { whyNotFree } from "./node-verdicts.ts";

/** The dependencies of answering users. */
export type RequestDeps = {
  readonly now: () => number;
  readonly newId: () => string;
  readonly sets: Records<ReplicaSet>;
  readonly rollouts: Records<Rollout>;
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

export type StoredSet = Stored<ReplicaSet>;

const MAX_LABELS = 64;
const MAX_POOLS_NAMED = 5;

/** Throws invalid_request. */
export function refuse(field: string, reason: string): never {
  return throwFault({ code: "invalid_request", field, reason });
}

function require(fault: Fault | undefined): void {
  if (fault !== undefined) throwFault(fault);
}

/** The stored set. Rejects with not_found, and with invalid_request when it is unreadable. */
export async function requireSet(deps: Pick<RequestDeps, "sets">, name: string): Promise<StoredSet> {
  require(checkDnsLabel("name", name, MAX_NAME_LENGTH));
  const found = await deps.sets.get(name);
  return found === undefined
    ? throwFault({ code: "not_found", kind: "replica set", id: name })
    : requireReadable(name, found);
}

type Found = NonNullable<Awaited<ReturnType<RequestDeps["sets"]["get"]>>>;

function requireReadable(name: string, found: Found): StoredSet {
  return "unreadable" in found ? refuse("record", `of ${name} cannot be read: ${found.unreadable}`) : found;
}

type Change = { readonly next: ReplicaSet; readonly audits: readonly Audit[] };

/** Changes the newest record; without a change nothing is written. */
async function changeSet(
  deps: RequestDeps,
  { name, requestId }: Pick<Named, "name" | "requestId">,
  change: (set: ReplicaSet) => Change | undefined,
): Promise<StoredSet> {
  return retryOnConflict(`replica set ${name}`, async () => {
    const stored = await requireSet(deps, name);
    const wanted = change(stored.record);
    if (wanted === undefined) return { unchanged: stored };
    const traceparent = traceparentOf();
    const next = { ...wanted.next, requestId, traceparent };
    const audits = buildAudits(name, wanted.audits, { nowMs: deps.now(), traceparent, newId: deps.newId });
    return { write: () => deps.sets.change({ key: name, revision: stored.revision, next, audits }) };
  });
}

export type ApplyRequest = {
  readonly requestId: string;
  readonly name: string;
  readonly spec: ReplicaSetSpec;
  readonly replace: boolean;
  readonly dryRun: boolean;
  /** Empty: anonymous. */
  readonly by: string;
};

export type Applied = { readonly set: StoredSet; readonly outcome: "CREATED" | "CHANGED" | "UNCHANGED" };

/** Creates the set, or changes it to the spec. */
export async function apply(deps: RequestDeps, request: ApplyRequest): Promise<Applied> {
  const { name, requestId, replace, dryRun, by } = request;
  const spec = checkSpec(name, request.spec);
  const found = await deps.sets.get(name);
  if (found === undefined) return create(deps, request, spec);
  const { record, revision } = requireReadable(name, found);
  refuseDeleted(record);
  if (isSameSpec(record.spec, spec)) return { set: { record, revision }, outcome: "UNCHANGED" };
  const change = (set: ReplicaSet): Change => ({
    next: { ...set, spec: checkChange(set, spec, replace), generation: set.generation + 1 },
    audits: [{ eventType: "CHANGED", details: { ...summary(spec), ...clientDetails(by) } }],
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

/** A new set, with the audit of its creation. */
export function buildSet(deps: RequestDeps, { name, requestId, by }: Named, spec: ReplicaSetSpec): ReplicaSet {
  const [nowMs, traceparent] = [deps.now(), traceparentOf()];
  const audit: Audit = { eventType: "CREATED", details: { ...summary(spec), ...clientDetails(by) } };
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

/** Overlapping sets give way by age, and clocks of farms differ: a later set is always younger. */
function creationTime({ world }: Pick<RequestDeps, "world">, { podId }: ReplicaSetSpec, nowMs: number): number {
  return Math.max(nowMs, ...world.setsOf(podId).map(({ createdAtMs }) => createdAtMs + 1));
}

function summary({ podId, nodeSelector, pool, replicasDesired, allocationStrategy, daemon }: ReplicaSetSpec) {
  return {
    pod_id: podId,
    ...(pool === undefined ? { node_selector: nodeSelector } : { pool }),
    ...(daemon ? { daemon } : { replicas_desired: replicasDesired }),
    // The word in the documents.
    allocation_strategy: allocationStrategy === "static" ? "Static" : "Dynamic",
  };
}

/** The spec with a normalised template, so that white space makes no difference. */
export function checkSpec(name: string, spec: ReplicaSetSpec): ReplicaSetSpec {
  const { podId, pool, labels, template, minReadySeconds } = spec;
  require(checkDnsLabel("name", name, MAX_NAME_LENGTH));
  require(checkDnsLabel("spec.pod_id", podId));
  if (pool !== undefined) checkPool(name, pool, spec);
  checkReplicas("spec.replicas_desired", spec.replicasDesired);
  if (minReadySeconds > MIN_READY_SECONDS.max)
    refuse("spec.min_ready_seconds", `${minReadySeconds} is more than ${MIN_READY_SECONDS.max}`);
  if (Object.keys(labels).length > MAX_LABELS) refuse("spec.labels", `has more than ${MAX_LABELS} labels`);
  for (const [key, value] of Object.entries(labels)) {
    require(checkLabelKey("spec.labels", key));
    require(checkLabelValue(`spec.labels.${key}`, value));
  }
  return { ...spec, template: normaliseTemplate(template) };
}

function checkPool(name: string, pool: string, { daemon, nodeSelector }: ReplicaSetSpec): void {
  require(checkLabelValue("spec.pool", pool));
  if (daemon)
    refuse(
      "spec.daemon",
      "cannot be with a pool, whose machines are granted to a number of replicas; leave one of them out",
    );
  if (nodeSelector !== "")
    refuse("spec.node_selector", `cannot be with a pool: the ledger chooses its machines of ${pool}`);
  if (!mayHaveMachines(name))
    refuse("name", `${name} has two hyphens in a row, which a set on machines of a pool cannot`);
}

export function normaliseTemplate(template: string): string {
  try {
    return JSON.stringify(JSON.parse(template));
  } catch (cause) {
    const reason = `is not JSON: ${cause instanceof Error ? cause.message : String(cause)}`;
    return throwFault({ code: "invalid_request", field: "spec.template_json", reason }, { cause });
  }
}

export function checkReplicas(field: string, count: number): void {
  if (count > MAX_REPLICAS) refuse(field, `${count} is more than ${MAX_REPLICAS}, the most that one set may have`);
}

function checkChange(set: ReplicaSet, spec: ReplicaSetSpec, replace: boolean): ReplicaSetSpec {
  const { name, rollout, deletion, placements } = set;
  if (deletion !== undefined) refuse("name", `${name} is being deleted; wait until it is gone`);
  refuseInRollout(set, "changed");
  const keeps = (what: string, hint: string): never =>
    refuse(`spec.${what}`, `cannot be changed while ${name} has ${placements.length} replicas: ${hint}`);
  if (placements.length > 0 && rollout === undefined) {
    if (spec.podId !== set.spec.podId) keeps("pod_id", "roll it to a new set");
    if (spec.daemon !== set.spec.daemon) keeps("daemon", "scale it to 0 before");
    if (spec.pool !== set.spec.pool) keeps("pool", "roll it to a new set, or scale it to 0 before");
    if (spec.template !== set.spec.template && !replace)
      keeps("template_json", "roll it to a new set, or use `replace` to recreate the pods a few at a time");
  }
  return spec;
}

function refuseInRollout({ name, rollout }: ReplicaSet, what: string): void {
  if (rollout !== undefined)
    refuse("name", `${name} is in rolling update ${rollout} and cannot be ${what} until that has ended`);
}

/** The checks that need the cluster and other sets. */
async function checkWithCluster(deps: RequestDeps, next: ReplicaSet, before: ReplicaSet | undefined): Promise<void> {
  if (before?.spec.template !== next.spec.template || before.spec.podId !== next.spec.podId) await deps.check(next);
  if (before?.spec.pool !== next.spec.pool) await refuseUnknownPool(deps, next);
  if (next.disabled) return;
  const asks = (["podId", "nodeSelector", "pool", "daemon"] as const).some(
    (each) => before?.spec[each] !== next.spec[each],
  );
  // A set that changes its nodes counts as the youngest, whatever its age. An overlap because nodes were relabelled is not its fault.
  await refuseOverlap(deps, asks ? youngest(next) : next);
}

/** An unknown pool is probably a mistake in its name. */
export async function refuseUnknownPool({ pools }: Pick<RequestDeps, "pools">, { spec: { pool } }: ReplicaSet) {
  const known = pool === undefined ? undefined : await pools();
  if (pool === undefined || known === undefined || known.includes(pool)) return;
  const named = known.toSorted().slice(0, MAX_POOLS_NAMED).join(", ");
  refuse(
    "spec.pool",
    `there is no pool "${pool}": the ledger has ${named}${known.length > MAX_POOLS_NAMED ? ", ..." : ""}`,
  );
}

function youngest(set: ReplicaSet): ReplicaSet {
  return { ...set, createdAtMs: Number.POSITIVE_INFINITY };
}

async function refuseOverlap(deps: RequestDeps, set: ReplicaSet): Promise<void> {
  const others = await deps.world.storedSetsOf(set.spec.podId);
  const overlap = findOverlap(set, others, deps.world.observedNodes() ?? []);
  if (overlap === undefined) return;
  const { with: older, because, nodes } = overlap;
  const why = {
    "same-selector": "has the same node selector",
    "selects-everything": "one of both selects every node",
    "same-nodes": `selects some of the same nodes, such as ${nodes.join(", ")}`,
  }[because];
  refuse(
    "spec.node_selector",
    `replica set ${older}, which exists already, runs pod id ${set.spec.podId} too and ${why}: both would compete for nodes. Choose other nodes, another pod_id, or disable ${older}`,
  );
}

export function isSameSpec(a: ReplicaSetSpec, b: ReplicaSetSpec): boolean {
  const inOrder = ({ labels, ...rest }: ReplicaSetSpec): string =>
    JSON.stringify([Object.entries(rest).toSorted(), Object.entries(labels).toSorted()]);
  return inOrder(a) === inOrder(b);
}

type Named = {
  readonly requestId: string;
  readonly name: string;
  /** Empty: anonymous. */
  readonly by: string;
};

/** Rejects with conflict when `expected` is another number than it has. */
export function scale(
  deps: RequestDeps,
  request: Named & { readonly replicasDesired: number; readonly expected: number | undefined },
): Promise<StoredSet> {
  const { replicasDesired, expected, by } = request;
  checkReplicas("replicas_desired", replicasDesired);
  return changeSet(deps, request, (set) => {
    refuseDeleted(set);
    refuseInRollout(set, "scaled");
    if (set.spec.daemon) refuse("name", `${set.name} has a pod on each eligible node, and no number of replicas`);
    const { replicasDesired: before } = set.spec;
    if (before === replicasDesired) return undefined;
    if (expected !== undefined && expected !== before)
      throwFault({
        code: "conflict",
        id: `replicas_desired of ${set.name}`,
        expectedRevision: expected,
        actualRevision: before,
      });
    const details = { pod_id: set.spec.podId, from: before, to: replicasDesired, ...clientDetails(by) };
    return {
      next: { ...set, spec: { ...set.spec, replicasDesired }, generation: set.generation + 1 },
      audits: [{ eventType: "SCALED", details }],
    };
  });
}

export async function enable(deps: RequestDeps, request: Named & { readonly enabled: boolean }): Promise<StoredSet> {
  const { enabled, by } = request;
  if (enabled) {
    const { record } = await requireSet(deps, request.name);
    if (record.disabled) await refuseOverlap(deps, youngest({ ...record, disabled: false }));
  }
  return changeSet(deps, request, (set) => {
    refuseDeleted(set);
    if (set.disabled === !enabled) return undefined;
    refuseInRollout(set, enabled ? "enabled" : "disabled");
    const eventType = enabled ? "ENABLED" : "DISABLED";
    const details = { pod_id: set.spec.podId, ...clientDetails(by) };
    return { next: { ...set, disabled: !enabled }, audits: [{ eventType, details }] };
  });
}

type Removal = Named & { readonly keepPods: boolean; readonly force: boolean };

/**
 * A set with replicas, or in a rolling update, which it ends, is deleted only by force; its pods are deleted with it unless they are kept. Undefined: its
 * record was unreadable, and is removed.
 */
export async function remove(deps: RequestDeps, request: Removal): Promise<StoredSet | undefined> {
  const { name, keepPods, force, by } = request;
  const found = await deps.sets.get(name);
  if (found !== undefined && "unreadable" in found) return removeUnreadable(deps, request, found);
  return changeSet(deps, request, (set) => {
    if (set.deletion !== undefined) {
      if (keepPods && !set.deletion.keepPods)
        refuse("keep_pods", `${set.name} is being deleted with its pods already: the remaining ones cannot be kept`);
      return undefined;
    }
    const { placements, name, spec, rollout } = set;
    if (rollout !== undefined && !force)
      refuse(
        "force",
        `${name} is in rolling update ${rollout}: wait until that has ended, or use force, which ends it`,
      );
    if (keepPods && spec.pool !== undefined)
      refuse(
        "keep_pods",
        `${name} is on machines of pool ${spec.pool}, which are released: its pods cannot stay there`,
      );
    if (placements.length > 0 && !force)
      refuse("force", `${name} has replicas, ${placements.length} of them: scale it to 0 before, or use force`);
    const details = { pod_id: set.spec.podId, keep_pods: keepPods, ...clientDetails(by) };
    return {
      next: { ...set, rollout: undefined, deletion: { keepPods, atMs: deps.now() } },
      audits: [{ eventType: "DELETED", details }],
    };
  });
}

/** The record cannot be followed, so it is removed immediately; its pods and machines then have no set, and the sweep removes them. */
async function removeUnreadable(
  deps: RequestDeps,
  { name, keepPods, force, by }: Removal,
  { unreadable, revision }: { readonly unreadable: string; readonly revision: number },
): Promise<undefined> {
  if (!force) refuse("record", `of ${name} cannot be read: ${unreadable}`);
  if (keepPods) refuse("keep_pods", `the record of ${name} cannot be read: its pods cannot be kept`);
  const audit: Audit = { eventType: "DELETED", details: { unreadable, ...clientDetails(by) } };
  const [nowMs, traceparent] = [deps.now(), traceparentOf()];
  // Before the removal: nothing may be deleted without an audit, and no record can carry it.
  await deps.auditLog.publish(buildAudits(name, [audit], { nowMs, traceparent, newId: deps.newId }));
  await deps.sets.remove(name, revision);
}

/** Begins to leave an eligible node, for the given node or, if that is empty, for one of the farm's choice. */
export function transferNode(
  deps: RequestDeps,
  request: Named & { readonly node: string; readonly newNode: string },
): Promise<StoredSet> {
  const { node, newNode, by } = request;
  return changeSet(deps, request, (set) => {
    refuseDeleted(set);
    refuseInRollout(set, "moved");
    const { name, transfer, placements, uid, nextOrdinal, spec } = set;
    if (transfer?.oldNode === node) return undefined;
    if (spec.daemon) refuse("name", `${name} has a pod on each eligible node: make the node ineligible instead`);
    if (transfer !== undefined) refuse("node", `${name} is leaving ${transfer.oldNode}; one node is left at a time`);
    if (!placements.some((each) => each.node === node)) refuse("node", `"${node}" has no replica of ${name}`);
    if (set.transfersHeld !== undefined)
      refuse("name", `transfers of ${name} are held by ${set.transfersHeld.by}: ${set.transfersHeld.because}`);
    const obstacle = newNode === "" ? undefined : whyNotFree(deps, set, newNode);
    if (obstacle !== undefined) refuse("new_node", `"${newNode}" cannot be taken: ${obstacle}`);
    const nowMs = deps.now();
    const started = {
      id: `${uid}-${nextOrdinal}`,
      oldNode: node,
      newNode: newNode === "" ? undefined : newNode,
      startedAtMs: nowMs,
      deadlineMs: nowMs + deps.transferMs,
      because: REQUESTED,
    };
    const details = {
      transfer_id: started.id,
      pod_id: spec.podId,
      old_node: node,
      new_node: newNode,
      reason: REQUESTED,
      ...clientDetails(by),
    };
    const templateHash = deps.templateHash(set);
    const placed = newNode === "" ? set : place({ nowMs, templateHash }, set, newNode);
    return { next: { ...placed, transfer: started }, audits: [{ eventType: "NODE_TRANSFER_START", details }] };
  });
}

/** A transfer in flight continues. */
export function holdTransfers(
  deps: RequestDeps,
  request: Named & { readonly hold: boolean; readonly because: string },
): Promise<StoredSet> {
  const { hold, by, because } = request;
  if (hold && by === "") refuse("by", "is empty: state who holds transfers");
  return changeSet(deps, request, (set) => {
    refuseDeleted(set);
    const { transfersHeld } = set;
    if (hold ? transfersHeld?.by === by && transfersHeld.because === because : transfersHeld === undefined)
      return undefined;
    const eventType = hold ? "TRANSFERS_HELD" : "TRANSFERS_RELEASED";
    const details = { pod_id: set.spec.podId, ...clientDetails(by), ...(hold && { reason: because }) };
    const next = { ...set, transfersHeld: hold ? { by, because, atMs: deps.now() } : undefined };
    return { next, audits: [{ eventType, details }] };
  });
}

function refuseDeleted({ name, deletion }: ReplicaSet): void {
  if (deletion !== undefined) refuse("name", `${name} is being deleted`);
}

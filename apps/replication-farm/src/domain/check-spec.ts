import { throwFault, type Fault } from "@muster/faults";
import { checkDnsLabel, checkLabelKey, checkLabelValue } from "@muster/names";
import { mayHaveMachines } from "./plan-set-machines.ts";
import {
  MAX_NAME_LENGTH,
  MAX_REPLICAS,
  MIN_READY_SECONDS,
  type ReplicaSet,
  type ReplicaSetSpec,
} from "./replica-set.ts";

const MAX_LABELS = 64;

/** Returns the spec with a normalised template, so that white space makes no difference. */
export function checkSpec(name: string, spec: ReplicaSetSpec): ReplicaSetSpec {
  const { podId, pool, labels, template, minReadySeconds } = spec;
  requireNone(checkDnsLabel("name", name, MAX_NAME_LENGTH));
  requireNone(checkDnsLabel("spec.pod_id", podId));
  if (pool !== undefined) checkPool(name, pool, spec);
  checkReplicas("spec.replicas_desired", spec.replicasDesired);
  if (minReadySeconds > MIN_READY_SECONDS.max)
    refuseField("spec.min_ready_seconds", `${minReadySeconds} is more than ${MIN_READY_SECONDS.max}`);
  if (Object.keys(labels).length > MAX_LABELS) refuseField("spec.labels", `has more than ${MAX_LABELS} labels`);
  for (const [key, value] of Object.entries(labels)) {
    requireNone(checkLabelKey("spec.labels", key));
    requireNone(checkLabelValue(`spec.labels.${key}`, value));
  }
  return { ...spec, template: normaliseTemplate(template) };
}

function checkPool(name: string, pool: string, { daemon, nodeSelector }: ReplicaSetSpec): void {
  requireNone(checkLabelValue("spec.pool", pool));
  if (daemon)
    refuseField(
      "spec.daemon",
      "cannot be combined with a pool, whose machines are granted for a number of replicas; omit one of them",
    );
  if (nodeSelector !== "")
    refuseField("spec.node_selector", `cannot be combined with a pool: the ledger chooses its machines of ${pool}`);
  if (!mayHaveMachines(name))
    refuseField("name", `${name} has two hyphens in a row, which a set on machines of a pool cannot`);
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
  if (count > MAX_REPLICAS) refuseField(field, `${count} is more than ${MAX_REPLICAS}, the maximum of one set`);
}

/** Returns the spec if the set may change to it now; throws the fault otherwise. */
export function checkChange(set: ReplicaSet, spec: ReplicaSetSpec, replace: boolean): ReplicaSetSpec {
  const { name, rollout, deletion, placements } = set;
  if (deletion !== undefined) refuseField("name", `${name} is being deleted; wait until it is gone`);
  refuseInRollout(set, "changed");
  const keeps = (what: string, hint: string): never =>
    refuseField(`spec.${what}`, `cannot be changed while ${name} has ${placements.length} replicas: ${hint}`);
  if (placements.length > 0 && rollout === undefined) {
    if (spec.podId !== set.spec.podId) keeps("pod_id", "roll it to a new set");
    if (spec.daemon !== set.spec.daemon) keeps("daemon", "scale it to 0 first");
    if (spec.pool !== set.spec.pool) keeps("pool", "roll it to a new set, or scale it to 0 first");
    if (spec.template !== set.spec.template && !replace)
      keeps("template_json", "roll it to a new set, or use `replace` to recreate the pods a few at a time");
  }
  return spec;
}

export function refuseInRollout({ name, rollout }: ReplicaSet, what: string): void {
  if (rollout !== undefined)
    refuseField("name", `${name} is in rolling update ${rollout} and cannot be ${what} until that has ended`);
}

export function refuseDeleted({ name, deletion }: ReplicaSet): void {
  if (deletion !== undefined) refuseField("name", `${name} is being deleted`);
}

export function isSameSpec(a: ReplicaSetSpec, b: ReplicaSetSpec): boolean {
  const inOrder = ({ labels, ...rest }: ReplicaSetSpec): string =>
    JSON.stringify([Object.entries(rest).toSorted(), Object.entries(labels).toSorted()]);
  return inOrder(a) === inOrder(b);
}

/** Throws FaultError invalid_request with this field and reason. */
export function refuseField(field: string, reason: string): never {
  return throwFault({ code: "invalid_request", field, reason });
}

/** Throws the fault as FaultError; returns without a fault. */
export function requireNone(fault: Fault | undefined): void {
  if (fault !== undefined) throwFault(fault);
}

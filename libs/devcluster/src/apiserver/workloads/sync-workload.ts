import { type JsonObject, put, textAt } from "../json.ts";
import { deployments, replicaSets } from "../kinds/deployment.ts";
import { pods } from "../kinds/pod.ts";
import { controllerRevisions, statefulSets } from "../kinds/stateful-set.ts";
import { volumeClaims } from "../kinds/volume-claim.ts";
import { isDeleting, nameOf } from "../metadata.ts";
import type { Resource } from "../resource.ts";
import { buildDeploymentStatus } from "./build-deployment-status.ts";
import { isControlledBy, planClaims } from "./dependents.ts";
import { findNewSet, planDeployment, REVISION } from "./plan-deployment.ts";
import { buildReplicaSetStatus, planReplicaSet } from "./plan-replica-set.ts";
import { planRevisions } from "./plan-revisions.ts";
import { buildStatefulStatus, ordinalOf, planStatefulSet, type StatefulStep } from "./plan-stateful-set.ts";
import type { Synced, World } from "./workload-controller.ts";

/** Brings the pods of a replica set to their number, and its status to what they are. */
export function syncReplicaSet(world: World, set: JsonObject): Synced {
  let failure = claim(world, set, pods);
  for (const step of planReplicaSet(set, ownedBy(world, set, pods))) {
    const refused = step.do === "create-pod" ? create(world, pods, step.pod) : world.delete(pods, step.pod);
    // What is refused once is refused for the others too.
    if (refused !== undefined) {
      failure ??= refused;
      break;
    }
  }
  const latest = world.find(replicaSets, set);
  if (latest === undefined) return { dueAtMs: Infinity, failure: undefined };
  const { status, dueAtMs } = buildReplicaSetStatus(latest, ownedBy(world, set, pods), { ...world, failure });
  return { dueAtMs, failure: world.report(replicaSets, put(latest, ["status"], status)) ?? failure };
}

/** Takes a deployment one step on, and its status to what its replica sets are. */
export function syncDeployment(world: World, deployment: JsonObject): Synced {
  let failure = claim(world, deployment, replicaSets);
  let created: string | undefined;
  for (const step of planDeployment(deployment, ownedBy(world, deployment, replicaSets), world.read(pods))) {
    switch (step.do) {
      case "create-set":
        failure ??= create(world, replicaSets, step.set);
        if (failure === undefined) created = nameOf(step.set);
        break;
      case "write-set":
        failure ??= world.write(replicaSets, step.set);
        break;
      case "delete-set":
        failure ??= world.delete(replicaSets, step.set);
        break;
    }
  }
  const latest = world.find(deployments, deployment);
  if (latest === undefined) return { dueAtMs: Infinity, failure: undefined };
  const sets = ownedBy(world, latest, replicaSets);
  const { status, dueAtMs } = buildDeploymentStatus(latest, sets, { ...world, created });
  const revision = textAt(findNewSet(latest, sets), "metadata", "annotations", REVISION);
  const revised =
    revision === "" || isDeleting(latest) ? latest : put(latest, ["metadata", "annotations", REVISION], revision);
  return { dueAtMs, failure: world.report(deployments, put(revised, ["status"], status)) ?? failure };
}

/** Takes a stateful set one step on, and its status to what its pods are. */
export function syncStatefulSet(world: World, set: JsonObject): Synced {
  let failure = claim(world, set, pods, (pod) => ordinalOf(set, pod) >= 0);
  failure ??= claim(world, set, controllerRevisions);
  const revisions = planRevisions(set, ownedBy(world, set, controllerRevisions), ownedBy(world, set, pods));
  if (!isDeleting(set)) {
    if (revisions.create !== undefined) failure ??= create(world, controllerRevisions, revisions.create);
    if (revisions.write !== undefined) failure ??= world.write(controllerRevisions, revisions.write);
    for (const revision of revisions.remove) failure ??= world.delete(controllerRevisions, revision);
  }
  const facts = { ...revisions, pods: ownedBy(world, set, pods), claims: world.read(volumeClaims), nowMs: world.nowMs };
  if (failure === undefined) for (const step of planStatefulSet(set, facts)) failure ??= actStateful(world, step);
  const latest = world.find(statefulSets, set);
  if (latest === undefined) return { dueAtMs: Infinity, failure: undefined };
  const { status, dueAtMs } = buildStatefulStatus(latest, { ...facts, pods: ownedBy(world, set, pods) });
  return { dueAtMs, failure: world.report(statefulSets, put(latest, ["status"], status)) ?? failure };
}

function actStateful(world: World, step: StatefulStep): string | undefined {
  switch (step.do) {
    case "create-claim":
      return create(world, volumeClaims, step.claim);
    case "write-claim":
      return world.write(volumeClaims, step.claim);
    case "create-pod":
      return create(world, pods, step.pod);
    case "delete-pod":
      return world.delete(pods, step.pod);
  }
}

/** What the workload owns now. */
function ownedBy(world: World, workload: JsonObject, resource: Resource): JsonObject[] {
  return world.read(resource).filter((object) => isControlledBy(object, workload));
}

/** Takes what is nobody's and has the labels, and gives up what has them no more; returns why that was refused. */
function claim(
  world: World,
  workload: JsonObject,
  resource: Resource,
  isMember?: (object: JsonObject) => boolean,
): string | undefined {
  let failure: string | undefined;
  for (const { object } of planClaims(workload, world.read(resource), isMember))
    failure ??= world.write(resource, object);
  return failure;
}

function create(world: World, resource: Resource, object: JsonObject): string | undefined {
  const result = world.create(resource, object);
  return "refused" in result ? result.refused : undefined;
}

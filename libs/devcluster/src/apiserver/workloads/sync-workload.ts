import { type JsonObject, put, textAt } from "../json.ts";
import { deployments, replicaSets } from "../kinds/deployment.ts";
import { pods } from "../kinds/pod.ts";
import { isDeleting, nameOf } from "../metadata.ts";
import type { Resource } from "../resource.ts";
import { buildDeploymentStatus } from "./build-deployment-status.ts";
import { isControlledBy, planClaims } from "./dependents.ts";
import { findNewSet, planDeployment, REVISION } from "./plan-deployment.ts";
import { buildReplicaSetStatus, planReplicaSet } from "./plan-replica-set.ts";
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

/** What the workload owns now. */
export function ownedBy(world: World, workload: JsonObject, resource: Resource): JsonObject[] {
  return world.read(resource).filter((object) => isControlledBy(object, workload));
}

/** Takes what is nobody's and has the labels, and gives up what has them no more; returns why that was refused. */
export function claim(world: World, workload: JsonObject, resource: Resource): string | undefined {
  let failure: string | undefined;
  for (const { object } of planClaims(workload, world.read(resource))) failure ??= world.write(resource, object);
  return failure;
}

export function create(world: World, resource: Resource, object: JsonObject): string | undefined {
  const result = world.create(resource, object);
  return "refused" in result ? result.refused : undefined;
}

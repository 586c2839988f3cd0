import type { Config } from "../config.ts";
import { buildOwnerId } from "../domain/build-units.ts";
import type { Queues } from "./follow-queues.ts";
import type { Machines } from "./machines.ts";
import type { JobRow } from "./read-job.ts";
import type { World } from "./world.ts";

/** Which namespaces and jobs this controller serves; others may have another controller. */
export type ServedJobs = {
  /** Whether new jobs of the namespace run; undefined before the queues are listed. */
  servesNamespace(namespace: string): boolean | undefined;
  /** Whether the controller runs the job. A job with machines, requested machines or pods keeps running after its namespace has lost the last queue. */
  serves(job: Pick<JobRow, "metadata">): boolean;
};

type ServedDeps = {
  readonly kube: Pick<Config["kube"], "namespace" | "jobNamespaces">;
  readonly queues: Pick<Queues, "isServed">;
  readonly machines: Pick<Machines, "unitsOf">;
  readonly world: { readonly pods: Pick<World["pods"], "byIndex"> };
};

export function makeServedJobs({ kube, queues, machines, world }: ServedDeps): ServedJobs {
  const servesNamespace: ServedJobs["servesNamespace"] = (namespace) => {
    if (namespace === kube.namespace) return true;
    return kube.jobNamespaces === "all" ? queues.isServed(namespace) : false;
  };
  const hasBegun = (ownerId: string): boolean =>
    machines.unitsOf(ownerId).some(({ state }) => state !== "unknown") ||
    world.pods.byIndex("owner", ownerId).length > 0;
  return {
    servesNamespace,
    serves: ({ metadata }) => servesNamespace(metadata.namespace) === true || hasBegun(buildOwnerId(metadata)),
  };
}

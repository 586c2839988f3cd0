import { NO_DEFAULTS, type ComponentPlace, type Requests } from "@muster/resources";
import { buildComponentName } from "./build-units.ts";
import { canRun } from "./job-pods.ts";
import type { JobStatus } from "./job-status.ts";
import { computeRequests } from "./read-sharing.ts";
import type { PodFact, Snapshot } from "./snapshot.ts";

type Job = Pick<Snapshot, "spec" | "units"> & {
  readonly status: Pick<JobStatus, "replicas">;
  readonly pods: readonly PodFact[];
};

/** Returns the machines where members still need room. A member whose pod runs on its machine, or that has completed, needs none. */
export function listPlaces(job: Job): readonly ComponentPlace[] {
  const needs = buildMemberNeeds(job);
  const machines = job.units.flatMap((unit) => (unit.state === "granted" ? [...unit.nodes] : []));
  return machines.flatMap(([component, node]): ComponentPlace[] => {
    const requests = needs.get(component);
    return requests === undefined || hasPodOn(job.pods, component, node) ? [] : [{ component, node, requests }];
  });
}

/** The requests of the next pod of each member that has not completed. */
function buildMemberNeeds({ spec, status }: Pick<Job, "spec" | "status">): ReadonlyMap<string, () => Requests> {
  if ("problems" in spec) return new Map();
  return new Map(
    spec.replicas.flatMap(({ type, replicas, shared, selection, ...replica }) => {
      const completed = status.replicas.find((each) => each.type === type)?.completedIndexes ?? [];
      const requests = (): Requests => shared ?? selection?.minimum ?? computeRequests(replica, NO_DEFAULTS);
      return Array.from({ length: replicas }, (_, index) => index)
        .filter((index) => !completed.includes(index))
        .map((index) => [buildComponentName({ type, index }), requests] as const);
    }),
  );
}

function hasPodOn(pods: readonly PodFact[], component: string, node: string): boolean {
  return pods.some((pod) => pod.component === component && pod.node === node && canRun(pod));
}

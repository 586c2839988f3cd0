import type { V1Pod } from "@kubernetes/client-node";
import { forEachSome } from "@muster/backoff";
import { listPages, type KubeCalls } from "@muster/kube";
import { logNotRemoved, reportFirstFailure, sweepOwners } from "@muster/ledger-client";
import { labels } from "@muster/proto";
import type { Logger } from "@muster/service";
import type { Nodes } from "@muster/watch";
import { findFollowedNamespace, type Config } from "../config.ts";
import { buildOwnerId, getUnitOwnerId } from "../domain/build-units.ts";
import type { Kind } from "../domain/kind.ts";
import { planLeftovers, decideUnitStanding, type PodLeft } from "../domain/plan-leftovers.ts";
import { planForcedDeletions } from "../domain/plan-pods.ts";
import type { PodFact } from "../domain/snapshot.ts";
import { removeByForce } from "./act.ts";
import type { KindRuntime } from "./kind-runtime.ts";
import type { Machines } from "./machines.ts";
import { toPodFact } from "./read-pod.ts";
import type { JobResource } from "./read-job.ts";
import { listOwners, type World } from "./world.ts";
import { canRun } from "../domain/job-pods.ts";

export type SweepDeps = {
  readonly logger: Pick<Logger, "warn">;
  readonly calls: Pick<KubeCalls, "list" | "delete">;
  readonly kube: Pick<Config["kube"], "namespace" | "jobNamespaces">;
  readonly machines: Pick<Machines, "ownerIds" | "unitsOf" | "release">;
  readonly nodes: Pick<Nodes, "lostAmong">;
  readonly world: Pick<World, "runningFor">;
  /** The runtimes of every kind that the API server serves. */
  readonly runtimes: readonly {
    readonly resource: KindRuntime["resource"];
    readonly jobs: Pick<KindRuntime["jobs"], "byIndex">;
  }[];
  /** Kinds that may have jobs outside every cache: while one exists, no job counts as deleted. */
  readonly kindsUnread: readonly Kind[];
};

/** Limits the owners in one sweep, because their ids form one selector. */
const MAX_OWNERS = 100;
const MAX_DELETIONS_IN_FLIGHT = 8;

/**
 * Releases the units of deleted jobs. A job that seems deleted is read from the API server first, because caches may be stale and a release cannot be undone.
 * Returns cached pods that outlived their jobs and keep machines.
 */
export async function sweepJobs(deps: SweepDeps): Promise<readonly PodLeft[]> {
  const { machines, world } = deps;
  const gone = goneOwners(deps);
  if (gone.length === 0) return [];
  await forceOnLostMachines(deps, gone);
  const seen = planLeftoversOfJobs(deps, gone);
  const ids = [...new Set(seen.release.map(getUnitOwnerId))].slice(0, MAX_OWNERS);
  if (ids.length === 0) return seen.left;
  await sweepOwners({
    observe: async () => {
      const [jobs, live] = await Promise.all([listJobs(deps), listRunning(deps, ids)]);
      const running = (id: string): readonly PodFact[] => [...(live.get(id) ?? []), ...world.runningFor(id)];
      const objects = ids.flatMap((id) => machines.unitsOf(id)).map((unit) => ({ unit, uid: unit.id }));
      return { objects, standingOf: ({ unit }) => decideUnitStanding(unit, { jobs, running }) };
    },
    leftSince: new Map(),
    // The id of a unit contains the uid of its job, which the API server has deleted: no later job can have the unit.
    graceMs: undefined,
    nowMs: Date.now,
    remove: async (step) => {
      await machines.release(step.object.unit.id);
      return step;
    },
    report: { notRemoved: logNotRemoved(deps.logger, "job") },
  });
  return seen.left;
}

/** Lists cached pods that have outlived their jobs and keep machines. */
export function listLeftoverPods(
  deps: Pick<SweepDeps, "runtimes" | "kindsUnread"> & LeftoversDeps,
): readonly PodLeft[] {
  return planLeftoversOfJobs(deps, goneOwners(deps)).left;
}

type LeftoversDeps = {
  readonly machines: Pick<Machines, "ownerIds" | "unitsOf">;
  readonly world: Pick<World, "runningFor">;
};

/** Lists owners without a job. The id of an owner does not contain its kind, so a job of an unread kind would look deleted. */
function goneOwners({
  machines,
  runtimes,
  kindsUnread,
}: Pick<SweepDeps, "runtimes" | "kindsUnread"> & LeftoversDeps): string[] {
  if (kindsUnread.length > 0) return [];
  return [...machines.ownerIds()].filter((id) =>
    runtimes.every(({ jobs }) => jobs.byIndex("ownerId", id).length === 0),
  );
}

function planLeftoversOfJobs(
  { machines, world }: LeftoversDeps,
  ids: readonly string[],
): ReturnType<typeof planLeftovers> {
  const units = ids.flatMap((id) => machines.unitsOf(id));
  return planLeftovers({ units, jobs: new Set(), running: (id) => world.runningFor(id) });
}

/** Reports each pod once, at the second sweep that finds it, because most pods are deleted shortly after their job. */
export function reportOnce(report: (pod: PodLeft) => void): (left: readonly PodLeft[]) => void {
  let before = new Map<string, "seen" | "reported">();
  return (left) => {
    const now = new Map<string, "seen" | "reported">();
    for (const pod of left) {
      const was = before.get(pod.uid);
      if (was === "seen") report(pod);
      now.set(pod.uid, was === undefined ? "seen" : "reported");
    }
    before = now;
  };
}

/**
 * Deletes pods by force that were deleted with their job on nodes that do not answer. Failed deletions are only logged, because they block only the machines of
 * their own pods.
 */
async function forceOnLostMachines({ calls, nodes, world, logger }: SweepDeps, ids: readonly string[]): Promise<void> {
  const pods = ids.flatMap((id) => world.runningFor(id));
  const occupied = new Set(pods.flatMap(({ node }) => node ?? []));
  const namespaceOf = new Map(pods.map(({ uid, namespace }) => [uid, namespace]));
  const lost = [...nodes.lostAmong(occupied, { nowMs: Date.now(), occupied }).keys()];
  const failures: { readonly pod: string; readonly uid: string; readonly err: unknown }[] = [];
  await forEachSome(
    planForcedDeletions(pods, lost),
    MAX_DELETIONS_IN_FLIGHT,
    ({ pod, uid }) => removeByForce(calls, namespaceOf.get(uid) ?? "", { name: pod, uid }),
    ({ pod, uid }, err) => failures.push({ pod, uid, err }),
  );
  reportFirstFailure(failures, (first, more) => {
    for (const failure of first)
      logger.warn(failure, "a pod on a lost machine could not be deleted by force; the next sweep retries");
    if (more > 0) logger.warn({ more }, "more pods on lost machines could not be deleted by force");
  });
}

async function listJobs({ calls, runtimes }: SweepDeps): Promise<ReadonlySet<string>> {
  const ids = new Set<string>();
  for (const { resource } of runtimes)
    for await (const jobs of listPages<JobResource>(calls, resource))
      for (const { metadata } of jobs) ids.add(buildOwnerId(metadata));
  return ids;
}

/** Lists pods of these owners that may still run, by owner id. */
async function listRunning(
  { calls, kube }: SweepDeps,
  ids: readonly string[],
): Promise<ReadonlyMap<string, readonly PodFact[]>> {
  const query = { labelSelector: `${labels.owner} in (${ids.join(", ")})` };
  const running = new Map<string, PodFact[]>();
  const namespace = findFollowedNamespace(kube);
  const resource = { apiVersion: "v1", plural: "pods", namespace };
  for await (const pods of listPages<V1Pod>(calls, resource, { query }))
    for (const pod of pods) {
      const fact = toPodFact(pod);
      if (!canRun(fact)) continue;
      for (const owner of listOwners(pod, kube.namespace)) running.set(owner, [...(running.get(owner) ?? []), fact]);
    }
  return running;
}

import type { V1Pod } from "@kubernetes/client-node";
import type { KubeCalls } from "@muster/kube";
import { labels } from "@muster/proto";
import { ownerIdOf } from "../domain/build-units.ts";
import { planLeftovers } from "../domain/plan-leftovers.ts";
import { planForced } from "../domain/plan-pods.ts";
import { mayRun } from "../domain/summarise-replicas.ts";
import { removeByForce } from "./act.ts";
import type { KindRuntime } from "./kind-runtime.ts";
import type { Machines } from "./machines.ts";
import type { Nodes } from "./nodes.ts";
import { podFact } from "./read-pod.ts";
import type { JobResource } from "./read-job.ts";
import type { World } from "./world.ts";

export type SweepDeps = {
  readonly calls: Pick<KubeCalls, "list" | "delete">;
  readonly namespace: string;
  readonly machines: Pick<Machines, "ownerIds" | "unitsOf" | "release">;
  readonly nodes: Pick<Nodes, "lostAmong">;
  readonly world: Pick<World, "runningFor">;
  /** Of every kind that the API server has. */
  readonly runtimes: readonly Pick<KindRuntime, "jobs" | "resource">[];
};

/** Owners that one sweep looks at; their ids go into one selector. */
const AT_ONCE = 100;

/**
 * Gives back what jobs had that are gone, with their pods. What seems to be gone is asked for at the API server, because a copy may be behind and machines that were
 * given back cannot be taken again.
 */
export async function sweep(deps: SweepDeps): Promise<void> {
  const { machines, world, runtimes } = deps;
  const gone = [...machines.ownerIds()].filter((id) =>
    runtimes.every(({ jobs }) => jobs.byIndex("ownerId", id).length === 0),
  );
  if (gone.length === 0) return;
  await forceOnLostMachines(deps, gone);
  const idle = gone.filter((id) => world.runningFor(id).length === 0).slice(0, AT_ONCE);
  if (idle.length === 0) return;
  const [jobs, running] = await Promise.all([listJobs(deps), listRunning(deps, idle)]);
  const unitIds = idle.flatMap((id) => machines.unitsOf(id).map((unit) => unit.id));
  await each(planLeftovers({ unitIds, jobs, running }), (id) => machines.release(id));
}

/** One after the other, all of them; the first error is thrown after the last. */
async function each<Item>(items: readonly Item[], work: (item: Item) => Promise<void>): Promise<void> {
  const errors: unknown[] = [];
  for (const item of items) await work(item).catch((error: unknown) => errors.push(error));
  if (errors.length > 0) throw errors[0];
}

/** Pods that were deleted with their job, on machines of which no word will come. */
async function forceOnLostMachines(
  { calls, namespace, nodes, world }: SweepDeps,
  ids: readonly string[],
): Promise<void> {
  const pods = ids.flatMap((id) => world.runningFor(id));
  const lost = nodes.lostAmong(new Set(pods.flatMap(({ node }) => node ?? [])), Date.now());
  await each(planForced(pods, lost), ({ pod, uid }) => removeByForce(calls, namespace, { name: pod, uid }));
}

/** Owner ids. */
async function listJobs({ calls, runtimes }: SweepDeps): Promise<ReadonlySet<string>> {
  const lists = await Promise.all(runtimes.map(({ resource }) => calls.list<JobResource>(resource)));
  return new Set(lists.flatMap(({ items }) => items.map(({ metadata }) => ownerIdOf(metadata))));
}

async function listRunning({ calls, namespace }: SweepDeps, ids: readonly string[]): Promise<ReadonlySet<string>> {
  const query = { labelSelector: `${labels.owner} in (${ids.join(", ")})` };
  const { items } = await calls.list<V1Pod>({ apiVersion: "v1", plural: "pods", namespace }, { query });
  return new Set(
    items.filter((pod) => mayRun(podFact(pod))).flatMap(({ metadata }) => metadata?.labels?.[labels.owner] ?? []),
  );
}

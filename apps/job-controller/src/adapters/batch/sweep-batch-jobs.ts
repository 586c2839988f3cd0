import type { V1Job } from "@kubernetes/client-node";
import { listPages, type KubeCalls } from "@muster/kube";
import { logNotRemoved, sweepOwners } from "@muster/ledger-client";
import { batchJobOwnerId } from "@muster/names";
import type { Logger } from "@muster/service";
import { ownerIdOfUnit } from "../../domain/build-units.ts";
import type { UnitSeen } from "../../domain/snapshot.ts";
import type { Machines } from "../machines.ts";
import { isOccupied } from "./act-batch-job.ts";
import type { BatchWorld } from "./follow-batch-jobs.ts";

type SweepDeps = {
  readonly logger: Pick<Logger, "warn">;
  readonly calls: Pick<KubeCalls, "list">;
  /** Absent: every namespace. */
  readonly namespace?: string | undefined;
  readonly machines: Pick<Machines, "ownerIds" | "unitsOf" | "release">;
  readonly world: Pick<BatchWorld, "jobs" | "hasPods" | "isComplete">;
};

/** Owners in one sweep. */
const MAX_OWNERS = 100;

/**
 * Releases what deleted Jobs had, after their last pod is gone. A Job that seems to be gone is searched at the API server, because a release cannot be undone.
 * Returns whether something is left.
 */
export async function sweepBatchJobs({ logger, calls, namespace, machines, world }: SweepDeps): Promise<boolean> {
  if (!world.isComplete()) return true;
  const known = new Set(world.jobs().map(batchJobOwnerId));
  const gone = [...machines.ownerIds()].filter((id) => !known.has(id));
  const ids = gone.filter((id) => !world.hasPods(id)).slice(0, MAX_OWNERS);
  if (ids.length === 0) return gone.length > 0;
  const { steps } = await sweepOwners<{ readonly uid: string; readonly unit: UnitSeen }>({
    observe: async () => {
      const jobs = await listJobs(calls, namespace);
      const objects = ids.flatMap((id) => machines.unitsOf(id)).map((unit) => ({ uid: unit.id, unit }));
      const busy = new Set<string>();
      for (const id of ids) if (!jobs.has(id) && (await isOccupied(calls, id, namespace))) busy.add(id);
      return {
        objects,
        standingOf: ({ unit }) => {
          const id = ownerIdOfUnit(unit.id);
          if (jobs.has(id) || unit.state === "unknown") return { kind: "owned", because: "its Job exists" };
          return busy.has(id)
            ? { kind: "blocked", because: "pods may run on its machines" }
            : { kind: "left", because: "its Job is gone" };
        },
      };
    },
    leftSince: new Map(),
    // The id of a unit contains the uid of its Job, which the API server has deleted: no later Job can have the unit.
    graceMs: undefined,
    nowMs: Date.now,
    remove: async (step) => {
      await machines.release(step.object.unit.id);
      return step;
    },
    report: { notRemoved: logNotRemoved(logger, "batch job") },
  });
  return gone.length > ids.length || steps.some(({ kind }) => kind === "suspect");
}

/** Owner ids. */
async function listJobs(calls: Pick<KubeCalls, "list">, namespace: string | undefined): Promise<ReadonlySet<string>> {
  const ids = new Set<string>();
  const resource = { apiVersion: "batch/v1", plural: "jobs", ...(namespace !== undefined && { namespace }) };
  for await (const jobs of listPages<V1Job>(calls, resource))
    for (const { metadata } of jobs)
      ids.add(
        batchJobOwnerId({
          namespace: metadata?.namespace ?? "",
          name: metadata?.name ?? "",
          uid: metadata?.uid ?? "",
        }),
      );
  return ids;
}

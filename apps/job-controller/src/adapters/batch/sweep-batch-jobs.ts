import { toKubeFault, listPages, type KubeCalls } from "@muster/kube";
import { logNotRemoved, sweepOwners } from "@muster/ledger-client";
import { buildBatchOwnerId, JOB_SET, QUEUED_POD, type BatchKind } from "@muster/names";
import type { Logger } from "@muster/service";
import { getUnitOwnerId } from "../../domain/build-units.ts";
import { QUEUE_LABEL } from "@muster/ledger-client/choose-queue";
import type { UnitSeen } from "../../domain/snapshot.ts";
import type { Machines } from "../machines.ts";
import { isOccupied } from "./act-batch-job.ts";
import { BATCH_RESOURCES, buildRowOwnerId } from "./batch-rows.ts";
import type { BatchWorld } from "./follow-batch-jobs.ts";

type SweepDeps = {
  readonly kind: BatchKind;
  readonly logger: Pick<Logger, "warn">;
  readonly calls: Pick<KubeCalls, "list">;
  /** Absent selects every namespace. */
  readonly namespace?: string | undefined;
  readonly machines: Pick<Machines, "ownerIds" | "unitsOf" | "release">;
  readonly world: Pick<BatchWorld, "jobs" | "hasPods" | "isComplete">;
};

/** Only few pods of a cluster have a queue of their own, so a label selects them. */
const LABELLED = { query: { labelSelector: QUEUE_LABEL } };
/** Maximum number of owners per sweep. */
const MAX_OWNERS = 100;

/**
 * Releases the units of deleted Jobs, JobSets or pods after their last pod is gone. Work that seems deleted is read from the API server first, because a
 * release cannot be undone. Returns whether any units remain.
 */
export async function sweepBatchJobs({ kind, logger, calls, namespace, machines, world }: SweepDeps): Promise<boolean> {
  const owners = machines.ownerIds();
  if (owners.size === 0) return false;
  if (!world.isComplete(kind)) return true;
  const known = new Set(world.jobs(kind).map(buildRowOwnerId));
  const gone = [...owners].filter((id) => !known.has(id));
  const ids = gone.filter((id) => !world.hasPods(id)).slice(0, MAX_OWNERS);
  if (ids.length === 0) return gone.length > 0;
  const name = BATCH_RESOURCES[kind].kind;
  const { steps } = await sweepOwners<{ readonly uid: string; readonly unit: UnitSeen }>({
    observe: async () => {
      const jobs = await listOwnerIds(calls, kind, namespace);
      const objects = ids.flatMap((id) => machines.unitsOf(id)).map((unit) => ({ uid: unit.id, unit }));
      const busy = new Set<string>();
      for (const id of ids)
        if (!jobs.has(id) && (await isOccupied(calls, { kind, ownerId: id, namespace }))) busy.add(id);
      return {
        objects,
        standingOf: ({ unit }) => {
          const id = getUnitOwnerId(unit.id);
          if (jobs.has(id) || unit.state === "unknown") return { kind: "owned", because: `its ${name} exists` };
          return busy.has(id)
            ? { kind: "blocked", because: "pods may run on its machines" }
            : { kind: "left", because: `its ${name} is gone` };
        },
      };
    },
    leftSince: new Map(),
    // The id of a unit contains the uid of its object, which the API server has deleted: no later object can have the unit.
    graceMs: undefined,
    nowMs: Date.now,
    remove: async (step) => {
      await machines.release(step.object.unit.id);
      return step;
    },
    report: { notRemoved: logNotRemoved(logger, kind) },
  });
  return gone.length > ids.length || steps.some(({ kind }) => kind === "suspect");
}

async function listOwnerIds(
  calls: Pick<KubeCalls, "list">,
  kind: BatchKind,
  namespace: string | undefined,
): Promise<ReadonlySet<string>> {
  const ids = new Set<string>();
  const resource = { ...BATCH_RESOURCES[kind], namespace };
  try {
    for await (const objects of listPages(calls, resource, kind === QUEUED_POD ? LABELLED : {}))
      for (const { metadata: { namespace: within = "", name = "", uid = "" } = {} } of objects)
        ids.add(buildBatchOwnerId(kind, { namespace: within, name, uid }));
  } catch (error) {
    // JobSets cannot exist without their definition, and the caches have observed that it is missing.
    if (kind !== JOB_SET || toKubeFault(error)?.code !== "not_found") throw error;
  }
  return ids;
}

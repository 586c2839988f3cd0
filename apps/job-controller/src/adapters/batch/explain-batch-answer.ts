import { throwFault } from "@muster/faults";
import { askMachines, toWireExplanation, type ExplainCalls } from "@muster/ledger-client";
import { canOccupy, type BatchKind } from "@muster/names";
import type { muster } from "@muster/proto";
import { explainBatchJob } from "../../domain/batch/explain-batch-job.ts";
import { planBatchJob } from "../../domain/batch/plan-batch-job.ts";
import { refuseIncompleteCaches } from "../../requests.ts";
import { observeBatchJob, type BatchPassDeps, type ObserveDeps } from "./batch-passes.ts";
import { BATCH_RESOURCES, buildRowKey, buildRowOwnerId } from "./batch-rows.ts";

/** Identifies work: `id` is the owner id in the ledger, or, with a namespace, also the name. Without a namespace, every namespace is searched. */
export type BatchOwner = { readonly kind: BatchKind; readonly id: string; readonly namespace: string };

type ExplainDeps = ObserveDeps & Pick<BatchPassDeps, "policy">;

/**
 * Explains work of Kubernetes with a queue, in every replica. If the ledger has no request for the work, explains why its next pass would wait. Rejects with
 * FaultError not_found.
 */
export async function explainBatchAnswer(
  deps: ExplainDeps,
  calls: ExplainCalls,
  { kind, id, namespace }: BatchOwner,
): Promise<muster.explain.v1.Explanation.$Properties> {
  if (!deps.world.isComplete(kind)) refuseIncompleteCaches([BATCH_RESOURCES[kind].plural]);
  const ofId = deps.world
    .jobsOf(id)
    .find((each) => each.kind === kind && (namespace === "" || each.namespace === namespace));
  const row = ofId ?? deps.world.job(buildRowKey({ kind, namespace, name: id }));
  if (row === undefined || row.queue === "") return throwFault({ code: "not_found", kind, id });
  const observed = observeBatchJob(deps, buildRowKey(row));
  if (!("seen" in observed)) return throwFault({ code: "not_found", kind, id });
  const { snapshot } = observed.seen;
  const owner = { kind, id: buildRowOwnerId(row) };
  const asked = await askMachines(calls, owner, { kind, includes: (part) => canOccupy(owner, part) });
  // A replica that does not lead knows no units, and only the leader remembers refusals.
  const units = snapshot.units.filter(({ state }) => state === "refused");
  const { wait } = planBatchJob({ ...snapshot, units }, deps.policy);
  const isPreempted = asked.reservation?.reservation?.preemption !== undefined;
  const reason = explainBatchJob({ job: snapshot.job, machines: asked.seen, isPreempted, wait });
  // Kubernetes keeps the phase of the work in its status.
  const explained = { kind, name: id, phase: "", sinceMs: 0, isOver: snapshot.job.finished };
  return toWireExplanation(explained, reason, asked);
}

import { toKubeFault, type KubeCalls } from "@muster/kube";
import { isFinished } from "../domain/job-status.ts";
import type { CompanionObject } from "../domain/kind.ts";
import type { Snapshot } from "../domain/snapshot.ts";
import type { JobRow } from "./read-job.ts";

type CompanionsSeen = Pick<Snapshot, "companionsMissing" | "companionsRefused">;

export const NOTHING_MISSING: CompanionsSeen = { companionsMissing: [], companionsRefused: undefined };
/** These rights are granted separately, because only some kinds need them. */
const REMEDY =
  "set rights.mpijobs=true in the values of the chart, or apply deploy/kubernetes/mpijobs.yaml, with JOB_NAMESPACES=all job-namespaces-mpijobs.yaml";

/** Only pods need companions, so a job that creates no pods is not checked. */
function mayMakePods({ spec, status, metadata, cancelled }: JobRow): boolean {
  if ("problems" in spec || spec.managedBy !== undefined || spec.suspend) return false;
  return !isFinished(status) && !cancelled && metadata.deletionTimestamp === undefined;
}

/** Returns the companions that the job lacks. A missing right is returned and not thrown, so that the status of the job states it. */
export async function findMissingCompanions(
  calls: Pick<KubeCalls, "get">,
  job: JobRow,
  companions: ReadonlyMap<string, CompanionObject>,
): Promise<CompanionsSeen> {
  if (!mayMakePods(job)) return NOTHING_MISSING;
  const { namespace } = job.metadata;
  const missing: string[] = [];
  for (const [name, { apiVersion, plural, metadata }] of companions) {
    try {
      await calls.get({ apiVersion, plural, namespace }, metadata.name);
    } catch (error) {
      const code = toKubeFault(error)?.code;
      // toKubeFault maps a missing permission (403) to invalid_request. A read by name cannot fail with it for any other reason.
      if (code === "invalid_request") {
        const companionsRefused = `the controller has no right to ${plural}, which its pods need: ${REMEDY}`;
        return { companionsMissing: [], companionsRefused };
      }
      if (code !== "not_found") throw error;
      missing.push(name);
    }
  }
  return { companionsMissing: missing, companionsRefused: undefined };
}

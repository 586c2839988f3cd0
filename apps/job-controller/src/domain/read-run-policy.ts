import { API_GROUP } from "@muster/names";
import type { CleanPodPolicy, JobSpec } from "./job.ts";
import { type Fields, INT32, NOT_NEGATIVE } from "./read-fields.ts";

/** The value of `managedBy` of our jobs; a job without a value is also ours. */
export const MANAGER_NAME = `${API_GROUP}/job-controller`;

export const CLEAN_POD_POLICIES: readonly CleanPodPolicy[] = ["None", "Running", "All"];

type RunPolicy = Pick<
  JobSpec,
  | "suspend"
  | "managedBy"
  | "backoffLimit"
  | "activeDeadlineMs"
  | "ttlAfterFinishedMs"
  | "cleanPodPolicy"
  | "priority"
  | "minAvailable"
>;

/** Reads `runPolicy`, which all kinds have; an absent field gets its default. */
export function readRunPolicy(
  policy: Fields | undefined,
  defaults: { readonly backoffLimit: number | undefined; readonly cleanPodPolicy: CleanPodPolicy },
): RunPolicy {
  const scheduling = policy?.object("schedulingPolicy");
  return {
    suspend: policy?.flag("suspend") ?? false,
    managedBy: readManagedBy(policy),
    backoffLimit: policy?.integer("backoffLimit", NOT_NEGATIVE) ?? defaults.backoffLimit,
    activeDeadlineMs: milliseconds(policy?.integer("activeDeadlineSeconds", NOT_NEGATIVE)),
    ttlAfterFinishedMs: milliseconds(policy?.integer("ttlSecondsAfterFinished", NOT_NEGATIVE)),
    cleanPodPolicy: policy?.oneOf("cleanPodPolicy", CLEAN_POD_POLICIES) ?? defaults.cleanPodPolicy,
    priority: scheduling?.integer("priority", INT32) ?? 0,
    minAvailable: scheduling?.integer("minAvailable", NOT_NEGATIVE),
  };
}

/** Reads the controller of the job if it is not ours. */
export function readManagedBy(policy: Fields | undefined): string | undefined {
  const name = policy?.text("managedBy");
  return name === undefined || name === "" || name === MANAGER_NAME ? undefined : name;
}

function milliseconds(seconds: number | undefined): number | undefined {
  return seconds === undefined ? undefined : seconds * 1000;
}

import { throwFault } from "@muster/faults";
import { checkLabelValue } from "@muster/names";
import type { LabelScheme } from "./controller-interface.ts";

export type Labels = Readonly<Record<string, string>>;

/** Value of the job role label; nobody else has the label at all. */
export const MASTER_ROLE = "master";

/**
 * The labels that everything of one job has, which are its selector, too. Throws FaultError invalid_request for a job whose name is no label value (more than 63
 * characters): it could never find its members again.
 */
export function genLabels(scheme: LabelScheme, jobName: string): Labels {
  return {
    [scheme.groupNameLabelKey]: scheme.groupNameLabelValue,
    [scheme.jobNameLabelKey]: labelValue("metadata.name", jobName.replaceAll("/", "-")),
  };
}

/** The labels of one member: those of its job, its replica type in lower case, its index, and the role if it is the one that speaks for the job. */
export function genMemberLabels(
  scheme: LabelScheme,
  jobName: string,
  member: { readonly replicaType: string; readonly index: number; readonly isMaster?: boolean },
): Labels {
  return {
    ...genLabels(scheme, jobName),
    [scheme.replicaTypeLabelKey]: labelValue("replica type", member.replicaType.toLowerCase()),
    [scheme.replicaIndexLabelKey]: String(member.index),
    ...(member.isMaster === true && { [scheme.jobRoleLabelKey]: MASTER_ROLE }),
  };
}

/** Whether the labels have every pair of the selector. */
export function selects(selector: Labels, labels: Labels): boolean {
  return Object.entries(selector).every(([key, value]) => labels[key] === value);
}

function labelValue(field: string, value: string): string {
  const fault = checkLabelValue(field, value);
  return fault === undefined ? value : throwFault(fault);
}

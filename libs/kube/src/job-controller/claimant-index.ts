import type { JobObject, LabelScheme } from "./controller-interface.ts";
import { genLabels } from "./member-labels.ts";
import { controllerOf, labelsOf, type Member } from "./member.ts";

/** A cache in which a job finds what may be its: an informer with the index `claimant`. */
export type ClaimantCache<M extends Member> = { byIndex(index: "claimant", value: string): readonly M[] };

/**
 * The index `claimant`: a managed member is found under its manager's uid, an orphan under its namespace and the name in its job label. So a pass looks at its own
 * members and not at all of the namespace.
 */
export function claimantIndex(scheme: LabelScheme): (member: Member) => readonly string[] {
  return (member) => {
    const uid = controllerOf(member)?.uid;
    if (uid !== undefined) return [uid];
    const name = labelsOf(member)[scheme.jobNameLabelKey];
    return name === undefined ? [] : [orphanKey(member.metadata?.namespace ?? "", name)];
  };
}

/** Everything that the job manages, and every orphan that it may select. */
export function findCandidates<M extends Member>(cache: ClaimantCache<M>, scheme: LabelScheme, job: JobObject): M[] {
  const { namespace, name, uid } = job.metadata;
  const label = genLabels(scheme, name)[scheme.jobNameLabelKey] ?? "";
  return [...cache.byIndex("claimant", uid), ...cache.byIndex("claimant", orphanKey(namespace, label))];
}

/** No uid has a slash. */
function orphanKey(namespace: string, jobName: string): string {
  return `${namespace}/${jobName}`;
}

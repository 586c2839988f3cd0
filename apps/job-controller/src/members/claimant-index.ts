import type { KindLabels } from "../domain/kind.ts";
import { findController, getLabels, type JobObject, type MemberObject } from "../domain/ownership.ts";

/** A cache with the index `claimant`, in which a job finds its members and the orphans that it may adopt. */
export type ClaimantCache<M extends MemberObject> = { byIndex(index: "claimant", value: string): readonly M[] };

/**
 * Builds the index `claimant`: a managed member is under its manager's uid, an orphan under its namespace and the name in its job label. A pass thus reads its
 * own members and not the whole namespace.
 */
export function makeClaimantIndex({ jobNameLabelKey }: KindLabels): (member: MemberObject) => readonly string[] {
  return (member) => {
    const uid = findController(member)?.uid;
    if (uid !== undefined) return [uid];
    const name = getLabels(member)[jobNameLabelKey];
    return name === undefined ? [] : [orphanKey(member.metadata?.namespace ?? "", name)];
  };
}

/** Returns all members of the job, and every orphan that it may select. */
export function findClaimCandidates<M extends MemberObject>(cache: ClaimantCache<M>, { metadata }: JobObject): M[] {
  const orphans = cache.byIndex("claimant", orphanKey(metadata.namespace, metadata.name));
  return [...cache.byIndex("claimant", metadata.uid), ...orphans];
}

/** The key cannot equal a uid, because no uid contains a slash. */
function orphanKey(namespace: string, jobName: string): string {
  return `${namespace}/${jobName}`;
}

import type { V1LabelSelector, V1PodDisruptionBudget } from "@kubernetes/client-node";
import type { JobIdentity } from "../domain/kind.ts";
import { matchesSelector, type Labels } from "../domain/member-labels.ts";
import type { Ownership } from "./claim-members.ts";
import { deleteOwnedObject, syncOwnedObject, type OwnedObjectDeps, type SyncOutcome } from "./owned-object.ts";

/**
 * Protects the pods of the job with a PodDisruptionBudget of its name: at least `minAvailable` stay while nodes are drained, because a gang that loses one pod
 * loses all of its work. Fails as `syncOwnedObject` does.
 */
export function syncBudget(
  deps: OwnedObjectDeps,
  job: JobIdentity,
  minAvailable: number,
  ownership: Ownership & { readonly isAbsent?: boolean },
): Promise<SyncOutcome> {
  const { name, namespace } = job;
  const { labels, owner } = ownership;
  return syncOwnedObject<V1PodDisruptionBudget>(deps, {
    ...buildBudgetPlace(job),
    ...ownership,
    build: () => ({
      apiVersion: "policy/v1",
      kind: "PodDisruptionBudget",
      metadata: { name, namespace, labels, ownerReferences: [owner] },
      spec: { minAvailable, selector: { matchLabels: labels } },
    }),
    difference: ({ spec }) => {
      const isSame = isSelectingExactly(spec?.selector, labels);
      if (isSame && spec?.minAvailable === minAvailable && spec.maxUnavailable === undefined) return undefined;
      const selector = isSame ? {} : { selector: replaceSelector(spec?.selector, labels) };
      return { spec: { minAvailable, maxUnavailable: null, ...selector } };
    },
  });
}

/** Deletes the job's budget, if it has one. */
export function deleteBudget(deps: OwnedObjectDeps, job: JobIdentity): Promise<boolean> {
  return deleteOwnedObject(deps, job.uid, buildBudgetPlace(job));
}

/** Whether a selector selects the pods with these labels, by matchLabels alone. */
export function isSelectingExactly(selector: V1LabelSelector | undefined, labels: Labels): boolean {
  const { matchLabels = {}, matchExpressions = [] } = selector ?? {};
  const isAsMany = Object.keys(matchLabels).length === Object.keys(labels).length;
  return matchExpressions.length === 0 && isAsMany && matchesSelector(labels, matchLabels);
}

/** Sets absent labels to null, because a merge patch keeps unnamed ones. */
function replaceSelector(selector: V1LabelSelector | undefined, labels: Labels): object {
  const gone = Object.keys(selector?.matchLabels ?? {}).filter((key) => !(key in labels));
  return { matchLabels: { ...Object.fromEntries(gone.map((key) => [key, null])), ...labels }, matchExpressions: null };
}

function buildBudgetPlace({ namespace, name }: JobIdentity) {
  return { title: "Pdb", resource: { apiVersion: "policy/v1", plural: "poddisruptionbudgets", namespace }, name };
}

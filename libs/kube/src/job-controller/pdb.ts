import type { V1LabelSelector, V1PodDisruptionBudget } from "@kubernetes/client-node";
import type { KubeResource } from "../kube-calls.ts";
import type { JobObject } from "./controller-interface.ts";
import { selects, type Labels } from "./member-labels.ts";
import type { OwnerReference } from "./member.ts";
import {
  deleteOwnedObject,
  syncOwnedObject,
  type OwnedObject,
  type OwnedObjectDeps,
  type SyncOutcome,
} from "./owned-object.ts";

/** How the objects of one job are found and owned. */
export type Ownership = {
  readonly labels: Labels;
  readonly owner: OwnerReference;
  readonly canAdopt: () => Promise<void>;
  /** The caller's cache has none of that name. */
  readonly isAbsent?: boolean;
};

const PDB = "Pdb";

/**
 * Makes a PodDisruptionBudget with the job's name guard its pods: so many must stay while nodes are drained. A gang of which a part is evicted has lost all of its work.
 * Fails as `syncOwnedObject`.
 */
export function syncPdb<Job extends JobObject>(
  deps: OwnedObjectDeps<Job>,
  job: Job,
  minAvailable: number,
  { labels, owner, canAdopt, isAbsent }: Ownership,
): Promise<SyncOutcome> {
  const wanted: OwnedObject<V1PodDisruptionBudget> = {
    title: PDB,
    ...placeOf(job),
    labels,
    owner,
    canAdopt,
    ...(isAbsent !== undefined && { isAbsent }),
    build: () => buildPdb(job, minAvailable, labels, owner),
    difference: ({ spec }) => {
      const isSame = selectsExactly(spec?.selector, labels);
      if (isSame && spec?.minAvailable === minAvailable && spec.maxUnavailable === undefined) return undefined;
      const selector = isSame ? {} : { selector: replaceSelector(spec?.selector, labels) };
      return { spec: { minAvailable, maxUnavailable: null, ...selector } };
    },
  };
  return syncOwnedObject(deps, job, wanted);
}

/** Deletes the job's budget, if it has one. */
export function deletePdb<Job extends JobObject>(deps: OwnedObjectDeps<Job>, job: Job): Promise<boolean> {
  return deleteOwnedObject(deps, job, { title: PDB, ...placeOf(job) });
}

/** Whether a selector means the pods with these labels, and says so in no other way. */
export function selectsExactly(selector: V1LabelSelector | undefined, labels: Labels): boolean {
  const { matchLabels = {}, matchExpressions = [] } = selector ?? {};
  const isAsMany = Object.keys(matchLabels).length === Object.keys(labels).length;
  return matchExpressions.length === 0 && isAsMany && selects(labels, matchLabels);
}

/** A merge keeps what it is not told about. */
function replaceSelector(selector: V1LabelSelector | undefined, labels: Labels): object {
  const gone = Object.keys(selector?.matchLabels ?? {}).filter((key) => !(key in labels));
  return { matchLabels: { ...Object.fromEntries(gone.map((key) => [key, null])), ...labels }, matchExpressions: null };
}

function buildPdb(job: JobObject, minAvailable: number, labels: Labels, owner: OwnerReference): V1PodDisruptionBudget {
  const { name, namespace } = job.metadata;
  return {
    apiVersion: "policy/v1",
    kind: "PodDisruptionBudget",
    metadata: { name, namespace, labels, ownerReferences: [owner] },
    spec: { minAvailable, selector: { matchLabels: labels } },
  };
}

function placeOf({ metadata }: JobObject): { readonly resource: KubeResource; readonly name: string } {
  const resource = { apiVersion: "policy/v1", plural: "poddisruptionbudgets", namespace: metadata.namespace };
  return { resource, name: metadata.name };
}

import { isDeepStrictEqual } from "node:util";
import type { KubeCalls, KubeObject, KubeResource } from "@muster/kube";
import type { GroupMark } from "../domain/build-pod.ts";
import type { JobIdentity } from "../domain/kind.ts";
import type { GroupSettings, GroupSpec } from "../domain/pod-group.ts";
import type { Ownership } from "./claim-members.ts";
import { findResource } from "./find-resource.ts";
import { deleteOwnedObject, syncOwnedObject, type OwnedObjectDeps, type SyncOutcome } from "./owned-object.ts";

/** A scheduler's own resource for a gang, and the marks of its pods. */
export type PodGroupKind = {
  readonly apiVersion: string;
  /** The supported fields in addition to minMember. */
  readonly fields: readonly (keyof GroupSettings)[];
  readonly mark: (group: string) => GroupMark;
};

export type PodGroup = KubeObject & { readonly spec?: Partial<GroupSpec> };

const POD_GROUP = "PodGroup";
/** The resource name of every kind. */
export const POD_GROUPS_PLURAL = "podgroups";

/** The kinds that the controller supports, in the order of preference. */
export const POD_GROUP_KINDS = {
  schedulerPlugins: {
    apiVersion: "scheduling.x-k8s.io/v1alpha1",
    fields: ["minResources", "scheduleTimeoutSeconds"],
    mark: (group) => ({ labels: { "scheduling.x-k8s.io/pod-group": group }, annotations: {} }),
  },
  volcano: {
    apiVersion: "scheduling.volcano.sh/v1beta1",
    fields: ["queue", "priorityClassName", "minResources"],
    mark: (group) => ({ labels: {}, annotations: { "scheduling.k8s.io/group-name": group } }),
  },
} as const satisfies Record<string, PodGroupKind>;

/** Returns the kinds that the cluster serves; empty without a gang scheduler. A kind that the controller has no right to list counts as not served. */
export async function findServedPodGroupKinds(
  calls: Pick<KubeCalls, "list">,
  namespace: string | undefined,
): Promise<readonly PodGroupKind[]> {
  const kinds = Object.values(POD_GROUP_KINDS);
  const found = await Promise.all(kinds.map((kind) => findResource(calls, buildPodGroupResource(kind, namespace))));
  return kinds.filter((_kind, index) => found[index] === "served");
}

/** The groups of the kind in the namespace, or in all namespaces by default. */
export function buildPodGroupResource(
  { apiVersion }: Pick<PodGroupKind, "apiVersion">,
  namespace?: string,
): KubeResource {
  return { apiVersion, plural: POD_GROUPS_PLURAL, namespace };
}

/**
 * Returns the merge patch from the present group to the desired one; undefined if they are equal. A group keeps its queue, because an operator may have changed
 * it.
 */
export function findPodGroupDifference(
  present: PodGroup["spec"],
  wanted: GroupSpec,
  fields: readonly (keyof GroupSettings)[],
): Partial<GroupSpec> | undefined {
  const known = fields.filter((field) => field !== "queue" || present?.queue === undefined);
  const differing = [...known, "minMember" as const].filter(
    (field) => wanted[field] !== undefined && !isDeepStrictEqual(wanted[field], present?.[field]),
  );
  if (differing.length === 0) return undefined;
  // A merge patch keeps unnamed quantities.
  const gone = Object.keys(present?.minResources ?? {}).filter((name) => wanted.minResources?.[name] === undefined);
  const nulls = Object.fromEntries(gone.map((name) => [name, null]));
  return Object.fromEntries(
    differing.map((field) => [field, field === "minResources" ? { ...nulls, ...wanted[field] } : wanted[field]]),
  );
}

/** Writes a PodGroup with the job's name, which states how many of its pods start together or not at all. Fails as `syncOwnedObject` does. */
export function syncPodGroup(
  deps: OwnedObjectDeps,
  job: JobIdentity,
  { apiVersion, fields }: PodGroupKind,
  group: GroupSpec,
  ownership: Ownership,
): Promise<SyncOutcome> {
  const { name, namespace } = job;
  const { labels, owner } = ownership;
  return syncOwnedObject<PodGroup>(deps, {
    ...buildGroupPlace(job, apiVersion),
    ...ownership,
    build: () => ({
      apiVersion,
      kind: POD_GROUP,
      metadata: { name, namespace, labels, ownerReferences: [owner] },
      spec: { ...findPodGroupDifference(undefined, group, fields), minMember: group.minMember },
    }),
    difference: (present) => {
      const spec = findPodGroupDifference(present.spec, group, fields);
      return spec === undefined ? undefined : { spec };
    },
  });
}

/** Deletes the job's group, if it has one. */
export function deletePodGroup(
  deps: OwnedObjectDeps,
  job: JobIdentity,
  { apiVersion }: PodGroupKind,
): Promise<boolean> {
  return deleteOwnedObject(deps, job.uid, buildGroupPlace(job, apiVersion));
}

function buildGroupPlace({ namespace, name }: JobIdentity, apiVersion: string) {
  return { title: POD_GROUP, resource: buildPodGroupResource({ apiVersion }, namespace), name };
}

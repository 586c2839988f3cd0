import type { KubeCalls, KubeResource } from "../kube-calls.ts";
import type { KubeObject } from "../list-watch.ts";
import type { JobObject } from "./controller-interface.ts";
import {
  deleteOwnedObject,
  syncOwnedObject,
  type OwnedObject,
  type OwnedObjectDeps,
  type SyncOutcome,
} from "./owned-object.ts";
import type { Ownership } from "./pdb.ts";
import { isServed } from "./served.ts";

/** A scheduler's own word for a gang, and how pods say that they are of it. */
export type PodGroupKind = {
  readonly apiVersion: string;
  readonly mark: (group: string) => {
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations: Readonly<Record<string, string>>;
  };
};

/** What is wanted of the group. Absent fields are left to the scheduler, and to whoever set them on the group. */
export type PodGroupSpec = {
  readonly minMember: number;
  /** Known to Volcano only, like the next one. */
  readonly queue?: string;
  readonly priorityClassName?: string;
};

type PodGroup = KubeObject & {
  readonly spec?: { readonly minMember?: number; readonly queue?: string; readonly priorityClassName?: string };
};

const POD_GROUP = "PodGroup";
const PLURAL = "podgroups";

/** The kinds that are looked for, in this order. */
export const POD_GROUP_KINDS = {
  schedulerPlugins: {
    apiVersion: "scheduling.x-k8s.io/v1alpha1",
    mark: (group) => ({ labels: { "scheduling.x-k8s.io/pod-group": group }, annotations: {} }),
  },
  volcano: {
    apiVersion: "scheduling.volcano.sh/v1beta1",
    mark: (group) => ({ labels: {}, annotations: { "scheduling.k8s.io/group-name": group } }),
  },
} as const satisfies Record<string, PodGroupKind>;

/** The first kind that the cluster serves; undefined when it has no scheduler for gangs. */
export async function findPodGroupKind(
  calls: Pick<KubeCalls, "list">,
  namespace: string,
): Promise<PodGroupKind | undefined> {
  for (const kind of Object.values(POD_GROUP_KINDS)) {
    if (await isServed(calls, { apiVersion: kind.apiVersion, plural: PLURAL, namespace })) return kind;
  }
  return undefined;
}

/** Makes a PodGroup with the job's name say how many of its pods start together or not at all. Fails as `syncOwnedObject`. */
export function syncPodGroup<Job extends JobObject>(
  deps: OwnedObjectDeps<Job>,
  job: Job,
  kind: PodGroupKind,
  spec: PodGroupSpec,
  { labels, owner, canAdopt }: Ownership,
): Promise<SyncOutcome> {
  const { name, namespace } = job.metadata;
  const fields = kind.apiVersion === POD_GROUP_KINDS.volcano.apiVersion ? spec : { minMember: spec.minMember };
  const wanted: OwnedObject<PodGroup> = {
    title: POD_GROUP,
    ...placeOf(job, kind),
    labels,
    owner,
    canAdopt,
    build: () => ({
      apiVersion: kind.apiVersion,
      kind: POD_GROUP,
      metadata: { name, namespace, labels, ownerReferences: [owner] },
      spec: fields,
    }),
    // Once the group is in a queue, whoever moved it there decides.
    difference: (there) =>
      there.spec?.minMember === spec.minMember ? undefined : { spec: { minMember: spec.minMember } },
  };
  return syncOwnedObject(deps, job, wanted);
}

/** Deletes the job's group, if it has one. */
export function deletePodGroup<Job extends JobObject>(
  deps: OwnedObjectDeps<Job>,
  job: Job,
  kind: PodGroupKind,
): Promise<boolean> {
  return deleteOwnedObject(deps, job, { title: POD_GROUP, ...placeOf(job, kind) });
}

function placeOf(
  { metadata }: JobObject,
  kind: PodGroupKind,
): { readonly resource: KubeResource; readonly name: string } {
  return {
    resource: { apiVersion: kind.apiVersion, plural: PLURAL, namespace: metadata.namespace },
    name: metadata.name,
  };
}

import { isDeepStrictEqual } from "node:util";
import type { KubeCalls, KubeResource } from "../kube-calls.ts";
import { kubeFault } from "../kube-fault.ts";
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
  /** The fields that it knows beside minMember. */
  readonly fields: readonly (keyof PodGroupSettings)[];
  readonly mark: (group: string) => {
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations: Readonly<Record<string, string>>;
  };
};

/** Absent fields are left to the scheduler, and to whoever set them on the group. What its kind does not know is left out. */
export type PodGroupSettings = {
  readonly queue?: string;
  readonly priorityClassName?: string;
  readonly minResources?: Readonly<Record<string, string | number>>;
  readonly scheduleTimeoutSeconds?: number;
};

/** What is wanted of the group. */
export type PodGroupSpec = PodGroupSettings & { readonly minMember: number };

export type PodGroup = KubeObject & { readonly spec?: PodGroupSettings & { readonly minMember?: number } };

const POD_GROUP = "PodGroup";
/** The resource of every kind. */
export const POD_GROUPS_PLURAL = "podgroups";

/** The kinds that are looked for, in this order. */
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

/** The kinds that the cluster serves; none when it has no scheduler for gangs. One that the caller has no right to list counts as not served. */
export async function servedPodGroupKinds(
  calls: Pick<KubeCalls, "list">,
  namespace: string,
): Promise<readonly PodGroupKind[]> {
  const kinds = Object.values(POD_GROUP_KINDS);
  const served = await Promise.all(
    kinds.map(({ apiVersion }) =>
      isServed(calls, { apiVersion, plural: POD_GROUPS_PLURAL, namespace }).catch(falseIfForbidden),
    ),
  );
  return kinds.filter((_kind, index) => served[index]);
}

function falseIfForbidden(error: unknown): false {
  const fault = kubeFault(error);
  if (fault?.code === "invalid_request" && fault.field === "permission") return false;
  throw error;
}

/** The first of them. */
export async function findPodGroupKind(
  calls: Pick<KubeCalls, "list">,
  namespace: string,
): Promise<PodGroupKind | undefined> {
  return (await servedPodGroupKinds(calls, namespace))[0];
}

/** The merge patch that makes a group as it is wanted; undefined when it is. Once it is in a queue, whoever moved it there decides. */
export function podGroupDifference(
  there: PodGroup["spec"],
  wanted: PodGroupSpec,
  fields: readonly (keyof PodGroupSettings)[],
): Partial<PodGroupSpec> | undefined {
  const known = fields.filter((field) => field !== "queue" || there?.queue === undefined);
  const differing = [...known, "minMember" as const].filter(
    (field) => wanted[field] !== undefined && !isDeepStrictEqual(wanted[field], there?.[field]),
  );
  if (differing.length === 0) return undefined;
  // A quantity that is not wanted any more would stay beside the others.
  const gone = Object.keys(there?.minResources ?? {}).filter((name) => wanted.minResources?.[name] === undefined);
  const nulls = Object.fromEntries(gone.map((name) => [name, null]));
  return Object.fromEntries(
    differing.map((field) => [field, field === "minResources" ? { ...nulls, ...wanted[field] } : wanted[field]]),
  );
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
      spec: { ...podGroupDifference(undefined, spec, kind.fields), minMember: spec.minMember },
    }),
    difference: (there) => {
      const difference = podGroupDifference(there.spec, spec, kind.fields);
      return difference === undefined ? undefined : { spec: difference };
    },
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
    resource: { apiVersion: kind.apiVersion, plural: POD_GROUPS_PLURAL, namespace: metadata.namespace },
    name: metadata.name,
  };
}

import type { KubeConfig, V1Job, V1Pod, V1PriorityClass } from "@kubernetes/client-node";
import { informer, isForbidden, kubeFault, listWatch, openPodDefaults, type Informer } from "@muster/kube";
import { batchJobOwnerId } from "@muster/names";
import type { PodDefaults } from "@muster/resources";
import type { Logger } from "@muster/service";
import type { KindDefaults } from "../../domain/kind.ts";
import { ownWrites } from "../own-writes.ts";
import { jobRow, keyOfRow, podRow, type JobRow, type PodRow } from "./batch-rows.ts";

/** Batch Jobs, their pods, and what decides about their requests and priorities, as caches of the API server have them. */
export type BatchWorld = AsyncDisposable & {
  jobs(): readonly JobRow[];
  /** `key`: `namespace/name`. The newest version that this process knows, from the cache or from its own last write. */
  job(key: string): JobRow | undefined;
  /** The pods that the Job with this uid controls. */
  podsOf(uid: string): readonly PodRow[];
  /** Pods that carry the owner id and have not finished. */
  hasPods(ownerId: string): boolean;
  recordJob(job: V1Job): void;
  recordPod(pod: V1Pod): void;
  /** The API server has refused a write that was based on what this process knew. */
  forgetWrites(key: string, pods: readonly PodRow[]): void;
  podDefaults(namespace: string): PodDefaults;
  /** Of the class with this name; empty: of pods without a class. */
  priorityOf(className: string): number;
  /** The Jobs with this owner id: one at most. */
  jobsOf(ownerId: string): readonly JobRow[];
  /** Called with `namespace/name` of a Job after each change of it or of one of its pods; `goneUid`: the Job is deleted. */
  onChange(listener: (key: string, goneUid: string | undefined) => void): void;
  /** Whether every cache has been complete once; those that the service may not list stay empty. */
  isComplete(): boolean;
  /** The age of the older one of the caches of Jobs and pods. */
  ageMs(): number;
  /** What this service may not list; undefined: it may list everything. */
  refused(): string | undefined;
};

type FollowOptions = {
  /** Absent: every namespace. */
  readonly namespace?: string | undefined;
  readonly defaults: KindDefaults;
  readonly logger: Pick<Logger, "warn">;
};

/** On every pod of a Job since Kubernetes 1.27. */
const OF_JOBS = { labelSelector: "batch.kubernetes.io/controller-uid" };

const PRIORITY_CLASSES = "priorityclasses.scheduling.k8s.io";

/** Follows the Jobs of the namespace, or of all, and their pods. */
export function followBatchJobs(kube: KubeConfig, { namespace, defaults, logger }: FollowOptions): BatchWorld {
  const within = namespace === undefined ? "" : `/namespaces/${namespace}`;
  const refused = new Set<string>();
  const onError =
    (resource: string) =>
    (error: unknown, retryInMs: number): void => {
      const isRefused = isForbidden(error) || kubeFault(error)?.code === "not_found";
      if (isRefused && refused.has(resource)) return;
      if (isRefused) refused.add(resource);
      logger.warn({ err: error, resource, retryInMs }, "following the API server is interrupted");
    };
  const jobs = informer<V1Job, JobRow, "owner">({
    source: listWatch<V1Job>(kube, `/apis/batch/v1${within}/jobs`),
    project: (job) => jobRow(job, defaults),
    indexes: { owner: (job) => [batchJobOwnerId(job)] },
    onError: onError("jobs.batch"),
  });
  const pods = informer<V1Pod, PodRow, "job" | "owner">({
    source: listWatch<V1Pod>(kube, `/api/v1${within}/pods`, OF_JOBS),
    project: podRow,
    indexes: { job: ({ jobUid }) => [jobUid], owner: ({ ownerId }) => [ownerId] },
    onError: onError("pods"),
  });
  const classes = informer<V1PriorityClass, PriorityRow>({
    source: listWatch<V1PriorityClass>(kube, "/apis/scheduling.k8s.io/v1/priorityclasses"),
    project: ({ value, globalDefault }) => ({ value: value ?? 0, isDefault: globalDefault === true }),
    onError: onError(PRIORITY_CLASSES),
  });
  const podDefaults = openPodDefaults(kube, { namespace, onError: onError("limitranges, runtimeclasses.node.k8s.io") });
  const caches = { jobs, pods, classes };
  // Passes check `isComplete`; a cache that is disposed of before its first list rejects.
  Promise.all([jobs.synced, pods.synced, classes.synced]).catch(() => undefined);
  const isListed = (cache: { listAgeMs(): number }): boolean => Number.isFinite(cache.listAgeMs());
  return {
    ...viewCaches(caches, defaults),
    podDefaults: podDefaults.current,
    refused: () => {
      for (const [resource, cache] of [
        ["jobs.batch", jobs],
        ["pods", pods],
      ] as const)
        if (isListed(cache)) refused.delete(resource);
      return refused.size === 0 ? undefined : [...refused].sort().join(", ");
    },
    isComplete: () => {
      const hasPriorities = isListed(classes) || refused.has(PRIORITY_CLASSES);
      return isListed(jobs) && isListed(pods) && hasPriorities && podDefaults.isSynced();
    },
    ageMs: () => Math.max(jobs.ageMs(), pods.ageMs()),
    [Symbol.asyncDispose]: async () => {
      await Promise.all([jobs, pods, classes, podDefaults].map((cache) => cache[Symbol.asyncDispose]()));
    },
  };
}

type PriorityRow = { readonly value: number; readonly isDefault: boolean };

type Caches = {
  readonly jobs: Informer<JobRow, "owner">;
  readonly pods: Informer<PodRow, "job" | "owner">;
  readonly classes: Informer<PriorityRow>;
};

type View = Omit<BatchWorld, "podDefaults" | "refused" | "isComplete" | "ageMs" | typeof Symbol.asyncDispose>;

function viewCaches({ jobs, pods, classes }: Caches, defaults: KindDefaults): View {
  const writtenJobs = ownWrites<JobRow>();
  const writtenPods = ownWrites<PodRow>();
  jobs.onChange(({ key, after }) => {
    if (after === undefined) writtenJobs.forget(key);
  });
  pods.onChange(({ before, after }) => {
    if (after === undefined && before !== undefined) writtenPods.forget(before.uid);
  });
  return {
    jobs: () => jobs.list(),
    job: (key) => writtenJobs.newest(key, jobs.get(key)),
    podsOf: (uid) => pods.byIndex("job", uid).flatMap((pod) => writtenPods.newest(pod.uid, pod) ?? []),
    hasPods: (ownerId) => pods.byIndex("owner", ownerId).some(({ finished }) => !finished),
    recordJob: (job) => {
      const row = jobRow(job, defaults);
      // One that was deleted meanwhile would never be removed.
      if (jobs.get(keyOfRow(row))?.uid === row.uid) writtenJobs.record(keyOfRow(row), row);
    },
    recordPod: (pod) => {
      const row = podRow(pod);
      if (pods.byIndex("job", row.jobUid).some(({ uid }) => uid === row.uid)) writtenPods.record(row.uid, row);
    },
    forgetWrites: (key, ofJob) => {
      writtenJobs.forget(key);
      for (const { uid } of ofJob) writtenPods.forget(uid);
    },
    priorityOf: (className) => {
      if (className !== "") return classes.get(className)?.value ?? 0;
      return classes.list().find(({ isDefault }) => isDefault)?.value ?? 0;
    },
    jobsOf: (ownerId) => jobs.byIndex("owner", ownerId),
    onChange: (listener) => {
      jobs.onChange(({ key, before, after }) => listener(key, after === undefined ? before?.uid : undefined));
      pods.onChange(({ before, after }) => {
        const pod = after ?? before;
        if (pod !== undefined && pod.jobUid !== "") listener(pod.jobKey, undefined);
      });
    },
  };
}

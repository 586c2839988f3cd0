import type { KubeConfig, V1Job, V1Pod, V1PriorityClass } from "@kubernetes/client-node";
import {
  openInformer,
  isForbidden,
  toKubeFault,
  listWatch,
  openPodDefaults,
  type Informer,
  type KubeObject,
} from "@muster/kube";
import { BATCH_JOB, JOB_SET, QUEUED_POD, type BatchKind } from "@muster/names";
import type { PodDefaults } from "@muster/resources";
import type { Logger } from "@muster/service";
import { findPlaceSet, type BatchJob } from "../../domain/batch/batch-job.ts";
import { toBatchJob } from "../../domain/batch/read-batch-job.ts";
import type { KindDefaults } from "../../domain/kind.ts";
import { QUEUE_LABEL } from "@muster/ledger-client/choose-queue";
import { makeOwnWrites } from "../own-writes.ts";
import {
  toJobRow,
  toJobSetRow,
  buildRowKey,
  buildRowOwnerId,
  toPodRow,
  toQueuedPodRow,
  type JobRow,
  type PodRow,
  type QueuedPodRow,
} from "./batch-rows.ts";
import { followJobSets, type JobSets } from "./follow-job-sets.ts";

/** Caches of batch Jobs, JobSets and queued pods, of their pods, and of the objects that decide about their requests and priorities. */
export type BatchWorld = AsyncDisposable & {
  /** Lists work without the Jobs of JobSets. */
  jobs(kind: BatchKind): readonly JobRow[];
  /** Returns the newest version that this process knows, from the cache or from its own last write. `key` is `kind/namespace/name`. */
  job(key: string): JobRow | undefined;
  /** Returns the part of the row that decides about its queue, with facts from the caches of Jobs and pod defaults. */
  workOf(row: JobRow): BatchJob;
  /** Lists the pods that the work controls. */
  podsOf(row: JobRow): readonly PodRow[];
  /** Whether a pod with the owner id has not finished. */
  hasPods(ownerId: string): boolean;
  /** Records a Job or a JobSet from the API server's answer to a write. */
  recordJob(kind: BatchKind, job: KubeObject): void;
  recordPod(pod: V1Pod): void;
  /** Forgets own writes after the API server refused a write that was based on them. */
  forgetWrites(key: string, pods: readonly PodRow[]): void;
  /** Returns the highest priority of these classes; an empty name stands for pods without a class. */
  priorityOf(classNames: readonly string[]): number;
  /** Returns the work with this owner id; owner ids are unique. */
  jobsOf(ownerId: string): readonly JobRow[];
  /** Calls the listener with the key of the work after each change of the work or of one of its pods; `goneUid` is set if the work was deleted. */
  onChange(listener: (key: string, goneUid: string | undefined) => void): void;
  /** Whether every cache that decides about this kind has been complete once; caches that the service may not list stay empty. */
  isComplete(kind: BatchKind): boolean;
  /** Returns the age of the oldest cache that decides about this kind. */
  ageMs(kind: BatchKind): number;
  /** The lists that this service may not read; undefined: it may read all of them. */
  refused(): string | undefined;
};

type FollowOptions = {
  /** Absent selects every namespace. */
  readonly namespace?: string | undefined;
  readonly defaults: KindDefaults;
  readonly discoverMs: number;
  readonly logger: Pick<Logger, "warn">;
};

/** Every pod of a Job has this label since Kubernetes 1.27. */
const OF_JOBS = { labelSelector: "batch.kubernetes.io/controller-uid" };

const PRIORITY_CLASSES = "priorityclasses.scheduling.k8s.io";

/** Follows the work, and its pods, of one namespace or of all. */
export function followBatchJobs(
  kube: KubeConfig,
  { namespace, defaults, discoverMs, logger }: FollowOptions,
): BatchWorld {
  const within = namespace === undefined ? "" : `/namespaces/${namespace}`;
  const refused = new Set<string>();
  const onError =
    (resource: string) =>
    (error: unknown, retryInMs: number): void => {
      const isRefused = isForbidden(error) || toKubeFault(error)?.code === "not_found";
      if (isRefused && refused.has(resource)) return;
      if (isRefused) refused.add(resource);
      logger.warn({ err: error, resource, retryInMs }, "following the API server is interrupted");
    };
  const caches = {
    ...followObjects(kube, within, defaults, onError),
    sets: followJobSets(kube, { within, defaults, discoverMs, onError: onError("jobsets.jobset.x-k8s.io") }),
  };
  const { jobs, sets, pods, queued, classes } = caches;
  const podDefaults = openPodDefaults(kube, {
    namespace,
    onError: onError("limitranges, runtimeclasses.node.k8s.io"),
    // The world of Muster's own jobs already reports unserved resources.
    onUnserved: () => undefined,
  });
  // Passes check `isComplete`; a cache that is disposed of before its first list rejects.
  Promise.all([jobs.synced, pods.synced, queued.synced, classes.synced]).catch(() => undefined);
  const isListed = (cache: { listAgeMs(): number }): boolean => Number.isFinite(cache.listAgeMs());
  const areJobsListed = (): boolean => isListed(jobs) && isListed(pods);
  const isListedOf = {
    [BATCH_JOB]: areJobsListed,
    [JOB_SET]: () => areJobsListed() && sets.isComplete(),
    [QUEUED_POD]: () => isListed(queued),
  };
  return {
    ...viewCaches(caches, defaults, podDefaults.current),
    refused: () => {
      if (isListed(jobs)) refused.delete("jobs.batch");
      if (isListed(pods) && isListed(queued)) refused.delete("pods");
      if (sets.isListed()) refused.delete("jobsets.jobset.x-k8s.io");
      return refused.size === 0 ? undefined : [...refused].sort().join(", ");
    },
    isComplete: (kind) => {
      const hasPriorities = isListed(classes) || refused.has(PRIORITY_CLASSES);
      return isListedOf[kind]() && hasPriorities && podDefaults.isSynced();
    },
    ageMs: (kind) => {
      if (kind === QUEUED_POD) return queued.ageMs();
      return Math.max(jobs.ageMs(), pods.ageMs(), kind === JOB_SET ? sets.ageMs() : 0);
    },
    [Symbol.asyncDispose]: async () => {
      const all = [jobs, sets, pods, queued, classes, podDefaults];
      await Promise.all(all.map((cache) => cache[Symbol.asyncDispose]()));
    },
  };
}

type PriorityRow = { readonly value: number; readonly isDefault: boolean };
/** A pod with the queue label. */
type LabelledPod = { readonly queued: QueuedPodRow | undefined };

type Caches = {
  readonly jobs: Informer<JobRow, "owner" | "set">;
  readonly sets: JobSets;
  readonly pods: Informer<PodRow, "job" | "owner">;
  readonly queued: Informer<LabelledPod, "owner" | "id" | "uid">;
  readonly classes: Informer<PriorityRow>;
};

function followObjects(
  kube: KubeConfig,
  within: string,
  defaults: KindDefaults,
  onError: (resource: string) => (error: unknown, retryInMs: number) => void,
): Omit<Caches, "sets"> {
  return {
    jobs: openInformer<V1Job, JobRow, "owner" | "set">({
      source: listWatch<V1Job>(kube, `/apis/batch/v1${within}/jobs`),
      project: (job) => toJobRow(job, defaults),
      indexes: {
        owner: (job) => [buildRowOwnerId(job)],
        set: ({ parent }) => (parent === undefined ? [] : [parent.uid]),
      },
      onError: onError("jobs.batch"),
    }),
    pods: openInformer<V1Pod, PodRow, "job" | "owner">({
      source: listWatch<V1Pod>(kube, `/api/v1${within}/pods`, OF_JOBS),
      project: toPodRow,
      indexes: { job: ({ jobUid }) => [jobUid], owner: ({ ownerId }) => [ownerId] },
      onError: onError("pods"),
    }),
    queued: openInformer<V1Pod, LabelledPod, "owner" | "id" | "uid">({
      source: listWatch<V1Pod>(kube, `/api/v1${within}/pods`, { labelSelector: QUEUE_LABEL }),
      project: (pod) => ({ queued: toQueuedPodRow(pod, defaults) }),
      indexes: {
        owner: ({ queued }) => (queued === undefined ? [] : [queued.pod.ownerId]),
        id: ({ queued }) => (queued === undefined ? [] : [buildRowOwnerId(queued.job)]),
        uid: ({ queued }) => (queued === undefined ? [] : [queued.job.uid]),
      },
      onError: onError("pods"),
    }),
    classes: openInformer<V1PriorityClass, PriorityRow>({
      source: listWatch<V1PriorityClass>(kube, "/apis/scheduling.k8s.io/v1/priorityclasses"),
      project: ({ value, globalDefault }) => ({ value: value ?? 0, isDefault: globalDefault === true }),
      onError: onError(PRIORITY_CLASSES),
    }),
  };
}

type View = Omit<BatchWorld, "refused" | "isComplete" | "ageMs" | typeof Symbol.asyncDispose>;

function viewCaches(caches: Caches, defaults: KindDefaults, podDefaults: (namespace: string) => PodDefaults): View {
  const { jobs, sets, pods, queued, classes } = caches;
  const { writtenJobs, writtenPods, writtenQueued } = keepWrites(caches);
  const cached = (key: string): JobRow | undefined => {
    const slash = key.indexOf("/");
    const kind = key.slice(0, slash);
    const name = key.slice(slash + 1);
    if (kind === BATCH_JOB) return jobs.get(name);
    return kind === JOB_SET ? sets.get(name) : undefined;
  };
  const newestQueued = (row: QueuedPodRow | undefined): QueuedPodRow | undefined =>
    row === undefined ? undefined : writtenQueued.newest(row.job.uid, row);
  const queuedOf = (uid: string): QueuedPodRow | undefined => newestQueued(queued.byIndex("uid", uid)[0]?.queued);
  const newestPod = (pod: PodRow): readonly PodRow[] => {
    const newest = writtenPods.newest(pod.uid, pod);
    return newest === undefined ? [] : [newest];
  };
  return {
    jobs: (kind) => {
      if (kind === QUEUED_POD) return queued.list().flatMap((each) => newestQueued(each.queued)?.job ?? []);
      return kind === JOB_SET ? sets.list() : jobs.list().filter(({ parent }) => parent === undefined);
    },
    job: (key) => {
      if (!key.startsWith(`${QUEUED_POD}/`)) return writtenJobs.newest(key, cached(key));
      return newestQueued(queued.get(key.slice(QUEUED_POD.length + 1))?.queued)?.job;
    },
    workOf: (row) => toBatchJob(row, jobs.byIndex("set", row.uid), podDefaults(row.namespace)),
    podsOf: (row) => {
      if (row.kind === QUEUED_POD) return [queuedOf(row.uid)?.pod ?? []].flat();
      if (row.kind === BATCH_JOB) return pods.byIndex("job", row.uid).flatMap(newestPod);
      return podsOfSet(caches, row)
        .flatMap(newestPod)
        .map((pod) => ({ ...pod, set: findSetName(caches, pod) }));
    },
    hasPods: (ownerId) =>
      pods.byIndex("owner", ownerId).some(({ finished }) => !finished) ||
      queued.byIndex("owner", ownerId).some((each) => each.queued?.job.finished === false),
    recordJob: (kind, job) => {
      const row = kind === JOB_SET ? toJobSetRow(job, defaults) : toJobRow(job, defaults);
      // Skip a Job that was deleted meanwhile, because its record would never be removed.
      if (cached(buildRowKey(row))?.uid === row.uid) writtenJobs.record(buildRowKey(row), row);
    },
    recordPod: (pod) => {
      const row = toPodRow(pod);
      if (pods.byIndex("job", row.jobUid).some(({ uid }) => uid === row.uid)) writtenPods.record(row.uid, row);
      const own = toQueuedPodRow(pod, defaults);
      if (own !== undefined && queued.byIndex("uid", row.uid).length > 0) writtenQueued.record(row.uid, own);
    },
    forgetWrites: (key, ofJob) => {
      writtenJobs.forget(key);
      for (const { uid } of ofJob) {
        writtenPods.forget(uid);
        writtenQueued.forget(uid);
      }
    },
    priorityOf: (classNames) =>
      Math.max(...(classNames.length > 0 ? classNames : [""]).map(makePriorityLookup(classes))),
    jobsOf: (ownerId) => [
      ...jobs.byIndex("owner", ownerId),
      ...sets.byOwner(ownerId),
      ...queued.byIndex("id", ownerId).flatMap((each) => each.queued?.job ?? []),
    ],
    onChange: (listener) => listen(caches, listener),
  };
}

function keepWrites({ jobs, sets, pods, queued }: Caches) {
  const writtenJobs = makeOwnWrites<JobRow>();
  const writtenPods = makeOwnWrites<PodRow>();
  const writtenQueued = makeOwnWrites<QueuedPodRow>();
  const forget = ({ before, after }: { readonly before: JobRow | undefined; readonly after: JobRow | undefined }) => {
    if (after === undefined && before !== undefined) writtenJobs.forget(buildRowKey(before));
  };
  jobs.onChange(forget);
  sets.onChange(forget);
  pods.onChange(({ before, after }) => {
    if (after === undefined && before !== undefined) writtenPods.forget(before.uid);
  });
  queued.onChange(({ before, after }) => {
    if (after?.queued === undefined && before?.queued !== undefined) writtenQueued.forget(before.queued.job.uid);
  });
  return { writtenJobs, writtenPods, writtenQueued };
}

function makePriorityLookup(classes: Informer<PriorityRow>): (className: string) => number {
  return (className) => {
    if (className !== "") return classes.get(className)?.value ?? 0;
    return classes.list().find(({ isDefault }) => isDefault)?.value ?? 0;
  };
}

/** Lists the pods of the set's Jobs, and pods that were bound for the set and whose Job no longer exists. */
function podsOfSet({ jobs, pods }: Caches, row: JobRow): readonly PodRow[] {
  const ofJobs = jobs.byIndex("set", row.uid).flatMap(({ uid }) => pods.byIndex("job", uid));
  const known = new Set(ofJobs.map(({ uid }) => uid));
  const bound = pods
    .byIndex("owner", buildRowOwnerId(row))
    .filter(({ uid, namespace }) => namespace === row.namespace && !known.has(uid));
  return [...ofJobs, ...bound];
}

function findSetName({ jobs }: Caches, { namespace, jobName, jobUid, component }: PodRow): string {
  const job = jobs.get(`${namespace}/${jobName}`);
  return (job?.uid === jobUid ? job.parent?.set : undefined) ?? findPlaceSet(component);
}

function listen(caches: Caches, listener: (key: string, goneUid: string | undefined) => void): void {
  const { jobs, sets, pods, queued } = caches;
  const ofWork = ({ before, after }: { readonly before?: JobRow | undefined; readonly after?: JobRow | undefined }) => {
    const row = after ?? before;
    if (row === undefined) return;
    if (row.parent === undefined) listener(buildRowKey(row), after === undefined ? row.uid : undefined);
    else listener(buildRowKey({ ...row.parent, kind: JOB_SET }), undefined);
  };
  jobs.onChange(ofWork);
  sets.onChange(ofWork);
  queued.onChange(({ before, after }) => ofWork({ before: before?.queued?.job, after: after?.queued?.job }));
  pods.onChange(({ before, after }) => {
    const pod = after ?? before;
    if (pod === undefined || pod.jobUid === "") return;
    const { namespace, jobName: name } = pod;
    const parent = jobs.get(`${namespace}/${name}`)?.parent;
    if (parent !== undefined) listener(buildRowKey({ kind: JOB_SET, namespace, name: parent.name }), undefined);
    else listener(buildRowKey({ kind: BATCH_JOB, namespace, name }), undefined);
    for (const set of sets.byOwner(pod.ownerId)) listener(buildRowKey(set), undefined);
  });
}

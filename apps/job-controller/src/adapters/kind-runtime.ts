import type { KubeConfig, V1Pod, V1Service } from "@kubernetes/client-node";
import {
  informer,
  jobController,
  kubeFault,
  listWatch,
  workQueue,
  type ClaimantCache,
  type ControllerInterface,
  type Expectations,
  type Informer,
  type JobController,
  type KubeCalls,
  type KubeResource,
  type RecordEvent,
  type WorkQueue,
} from "@muster/kube";
import { annotations, labels } from "@muster/proto";
import { ownerIdOf } from "../domain/build-units.ts";
import type { Kind, KindDefaults } from "../domain/kind.ts";
import { componentLabel, ownerLabels } from "../domain/member-metadata.ts";
import { ownWrites } from "./own-writes.ts";
import { readJob, type JobResource, type JobRow } from "./read-job.ts";

/** One kind of job in this process: its resources, what is to be looked at, and the operations on their members. */
export type KindRuntime = AsyncDisposable & {
  readonly kind: Kind;
  readonly resource: KubeResource;
  readonly jobs: Informer<JobRow, "ownerId">;
  /** Puts the job into the queue of whoever works now; nobody works in a process that does not lead. */
  wake(key: string, priority?: "high" | "low"): void;
  /** The same no later than in so many milliseconds. */
  wakeAfter(key: string, ms: number): void;
  /** A queue with every job in it, for whoever begins to work; the one before gets no more. */
  newQueue(): WorkQueue;
  readonly controller: JobController<JobRow>;
  /** Milliseconds for which more jobs have waited for a pass than passes are made at once, whenever this was asked; undefined when that is not so now. */
  busyForMs(): number | undefined;
  /** The newest version that this process knows of, be it from the cache or from its own last write. */
  job(key: string): JobRow | undefined;
  /** What a write of ours was answered with: until the cache has it, passes go on from it. */
  wrote(resource: JobResource): void;
  /** A write was refused because something else is there: what the cache has counts, be it of a lower version. */
  distrust(key: string): void;
  /** Milliseconds since this process last wrote the job's status; Infinity when it never did. */
  sinceWriteMs(key: string): number;
  /** Aborted when it is disposed: the kind was uninstalled, or the process ends. */
  readonly ended: AbortSignal;
};

export type KindDeps = {
  readonly config: KubeConfig;
  readonly calls: KubeCalls;
  readonly namespace: string;
  readonly defaults: KindDefaults;
  readonly pods: ClaimantCache<V1Pod>;
  readonly services: ClaimantCache<V1Service>;
  readonly expectations: Expectations;
  readonly recordEvent: RecordEvent<JobRow>;
  readonly syncPeriodMs: number;
  readonly workers: number;
  readonly gangScheduling: boolean;
  readonly onError: (error: unknown, retryInMs: number) => void;
};

const CONTROLLER_NAME = "muster-job-controller";
const KEYS = { labels, annotations };

/** Begins to follow the jobs of one kind. */
export function startKind(kind: Kind, deps: KindDeps): KindRuntime {
  const { namespace, calls, defaults } = deps;
  const apiVersion = `${kind.group}/${kind.version}`;
  const resource: KubeResource = { apiVersion, plural: kind.plural, namespace };
  // Shut, so that a replica which never leads does not keep the name of every job that there ever was.
  let queue = workQueue();
  void queue.shutDown();
  const wake = (key: string, priority: "high" | "low" = "high"): void => queue.add(key, priority);
  const busyForMs = busyMeter(() => queue.length > deps.workers);
  const ended = new AbortController();
  const writtenMs = new Map<string, number>();
  const written = ownWrites();
  const read = (each: JobResource): JobRow => readJob(each, kind, defaults);
  const jobs = informer<JobResource, JobRow, "ownerId">({
    source: listWatch<JobResource>(deps.config, `/apis/${apiVersion}/namespaces/${namespace}/${kind.plural}`),
    project: read,
    indexes: { ownerId: ({ metadata }) => [ownerIdOf(metadata)] },
    onError: deps.onError,
  });

  const job = (key: string): JobRow | undefined => written.newest(key, jobs.get(key));

  const { pods, services, recordEvent, expectations } = deps;
  const controller = jobController<JobRow>(
    controllerInterface(kind, { job, calls, resource, read }),
    { calls, pods, services, jobs: () => jobs.list(), queue: { add: wake }, recordEvent, expectations },
    { reconcilerSyncLoopPeriodMs: deps.syncPeriodMs, enableGangScheduling: deps.gangScheduling },
  );
  jobs.onChange(({ key, before, after }) => {
    if (after === undefined && before !== undefined) {
      written.forget(key);
      writtenMs.delete(key);
      controller.forgetJob(before.metadata.uid);
    }
    wake(key);
  });

  return {
    kind,
    resource,
    jobs,
    wake,
    wakeAfter: (key, ms) => queue.addAfter(key, ms),
    distrust: written.forget,
    busyForMs,
    newQueue: () => {
      queue = workQueue();
      for (const { metadata } of jobs.list()) queue.add(`${metadata.namespace}/${metadata.name}`);
      return queue;
    },
    controller,
    job,
    wrote: (each) => {
      const key = `${each.metadata.namespace}/${each.metadata.name}`;
      // Gone while its status was on the way: nothing would ever take it out again.
      if (jobs.get(key)?.metadata.uid !== each.metadata.uid) return;
      written.wrote(key, read(each));
      writtenMs.set(key, performance.now());
    },
    sinceWriteMs: (key) => performance.now() - (writtenMs.get(key) ?? -Infinity),
    ended: ended.signal,
    [Symbol.asyncDispose]: () => {
      ended.abort();
      return jobs[Symbol.asyncDispose]();
    },
  };
}

/** For how many milliseconds it has been busy whenever that was asked. */
function busyMeter(isBusy: () => boolean): () => number | undefined {
  let sinceMs: number | undefined;
  return () => {
    const nowMs = performance.now();
    sinceMs = isBusy() ? (sinceMs ?? nowMs) : undefined;
    return sinceMs === undefined ? undefined : nowMs - sinceMs;
  };
}

/** Whether the API server has this kind of resource, and lets us read it. Rejects when it does not answer. */
export async function findKind(
  kind: Kind,
  calls: Pick<KubeCalls, "list">,
  namespace: string,
): Promise<"served" | "absent" | "refused"> {
  try {
    const resource = { apiVersion: `${kind.group}/${kind.version}`, plural: kind.plural, namespace };
    await calls.list(resource, { query: { limit: 1 } });
    return "served";
  } catch (error) {
    if (kubeFault(error)?.code === "not_found") return "absent";
    if (isRightMissing(error)) return "refused";
    throw error;
  }
}

/** Asking again does not help before somebody gives it. */
export function isRightMissing(error: unknown): boolean {
  const fault = kubeFault(error);
  return fault?.code === "invalid_request" && fault.field === "permission";
}

function controllerInterface(
  kind: Kind,
  source: {
    readonly job: (key: string) => JobRow | undefined;
    readonly calls: Pick<KubeCalls, "get">;
    readonly resource: KubeResource;
    readonly read: (resource: JobResource) => JobRow;
  },
): ControllerInterface<JobRow> {
  const { calls, resource, read } = source;
  return {
    controllerName: CONTROLLER_NAME,
    apiGroupVersionKind: { group: kind.group, version: kind.version, kind: kind.kind },
    plural: kind.plural,
    ...kind.labelKeys,
    furtherLabels: ({ job, replicaType, index }) => {
      const member = { type: replicaType, index };
      const further = "problems" in job.spec ? {} : kind.labels(job.metadata, member, job.spec);
      return {
        ...further,
        ...ownerLabels({ job: job.metadata }, KEYS),
        ...componentLabel(member, KEYS),
      };
    },
    getJobFromInformerCache: (namespace, name) => source.job(`${namespace}/${name}`),
    getJobFromApi: async (namespace, name) => read(await calls.get<JobResource>({ ...resource, namespace }, name)),
  };
}

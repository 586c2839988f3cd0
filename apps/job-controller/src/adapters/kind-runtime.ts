import type { KubeConfig } from "@kubernetes/client-node";
import { workQueue, type WorkQueue } from "@muster/controller";
import { openInformer, listWatch, buildResourcePath, type Informer, type KubeResource } from "@muster/kube";
import { buildOwnerId } from "../domain/build-units.ts";
import type { Kind, KindDefaults } from "../domain/kind.ts";
import { buildJobKey } from "../domain/ownership.ts";
import { makeKindController, type KindController, type KindControllerDeps } from "./kind-controller.ts";
import { makeOwnWrites } from "./own-writes.ts";
import { buildJobPlace, readJob, type JobResource, type JobRow } from "./read-job.ts";
import { makeStaleVersions } from "./stale-versions.ts";

/** One kind of job in this process: its jobs, their queue, and the operations on their members. */
export type KindRuntime = AsyncDisposable & {
  readonly kind: Kind;
  /** The watched jobs of the kind, of one namespace or of all. */
  readonly resource: KubeResource;
  readonly jobs: Informer<JobRow, "ownerId">;
  /** Adds the job to the queue; without effect while another process leads, because only the leader has a queue. */
  wake(key: string, priority?: "high" | "low"): void;
  /** Adds the job to the queue after at most `ms`. */
  wakeAfter(key: string, ms: number): void;
  /** Returns a queue with every job; the previous queue gets no more keys. */
  newQueue(): WorkQueue;
  readonly controller: KindController;
  /** Milliseconds for which more jobs than workers have waited, at every call; undefined if fewer wait now. */
  busyForMs(): number | undefined;
  /** The newest version that this process knows, from the cache or from its own last write. */
  job(key: string): JobRow | undefined;
  /** Records the answer to a write: passes continue from it until the cache has it. */
  recordWrite(resource: JobResource): void;
  /**
   * Records that the API server has replaced this version of the job. Passes wait until the cache has another version, which then counts even if it is lower
   * than the last own write.
   */
  recordStale(key: string, version: string | undefined): void;
  /** Time to wait for a version other than this one, in ms; undefined if no other version is known. */
  staleForMs(key: string, version: string | undefined): number | undefined;
  /** Forgets a deleted job. */
  forgetStale(key: string): void;
  /** Milliseconds since this process last wrote the job's status; Infinity if it never did. */
  sinceWriteMs(key: string): number;
  /** Aborted at disposal: the kind was uninstalled, or the process ends. */
  readonly ended: AbortSignal;
};

type KindDeps = Pick<
  KindControllerDeps,
  "calls" | "pods" | "services" | "expectations" | "recordEvent" | "syncPeriodMs"
> & {
  readonly config: KubeConfig;
  /** Undefined for every namespace. */
  readonly namespace: string | undefined;
  readonly defaults: KindDefaults;
  readonly workers: number;
  readonly onError: (error: unknown, retryInMs: number) => void;
};

export function startKind(kind: Kind, deps: KindDeps): KindRuntime {
  const { namespace, calls, defaults } = deps;
  const apiVersion = `${kind.group}/${kind.version}`;
  const resource: KubeResource = { apiVersion, plural: kind.plural, namespace };
  // The queue is shut down, so that a replica that never leads does not collect the key of every job.
  let queue = workQueue();
  void queue.shutDown();
  const wake = (key: string, priority: "high" | "low" = "high"): void => queue.add(key, priority);
  const busyForMs = busyMeter(() => queue.length > deps.workers);
  const ended = new AbortController();
  const writtenMs = new Map<string, number>();
  const written = makeOwnWrites<JobRow>();
  const stale = makeStaleVersions(() => performance.now());
  const read = (each: JobResource): JobRow => readJob(each, kind, defaults);
  const jobs = openInformer<JobResource, JobRow, "ownerId">({
    source: listWatch<JobResource>(deps.config, buildResourcePath(resource)),
    project: read,
    indexes: { ownerId: ({ metadata }) => [buildOwnerId(metadata)] },
    onError: deps.onError,
  });

  const job = (key: string): JobRow | undefined => written.newest(key, jobs.get(key));

  const controller = makeKindController(kind, {
    ...deps,
    jobs: () => jobs.list(),
    job,
    readJob: async (row) => read(await calls.get<JobResource>(buildJobPlace(kind, row.metadata), row.metadata.name)),
    enqueue: wake,
  });
  jobs.onChange(({ key, before, after }) => {
    if (after === undefined && before !== undefined) {
      stale.forget(key);
      written.forget(key);
      writtenMs.delete(key);
      deps.expectations.deleteJob(before.metadata.uid);
    }
    wake(key);
  });

  return {
    kind,
    resource,
    jobs,
    wake,
    wakeAfter: (key, ms) => queue.addAfter(key, ms),
    recordStale: (key, version) => {
      written.forget(key);
      stale.record(key, version);
    },
    staleForMs: stale.waitMs,
    forgetStale: stale.forget,
    busyForMs,
    newQueue: () => {
      queue = workQueue();
      for (const each of jobs.list()) queue.add(buildJobKey(each));
      return queue;
    },
    controller,
    job,
    recordWrite: (each) => {
      const key = buildJobKey(each);
      // Skip a job that was deleted during the write of its status, because its entry would never be removed.
      if (jobs.get(key)?.metadata.uid !== each.metadata.uid) return;
      written.record(key, read(each));
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

/** Returns the milliseconds for which `isBusy` was true at every call. */
function busyMeter(isBusy: () => boolean): () => number | undefined {
  let sinceMs: number | undefined;
  return () => {
    const nowMs = performance.now();
    sinceMs = isBusy() ? (sinceMs ?? nowMs) : undefined;
    return sinceMs === undefined ? undefined : nowMs - sinceMs;
  };
}

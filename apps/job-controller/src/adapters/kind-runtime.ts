import type { KubeConfig } from "@kubernetes/client-node";
import { workQueue, type WorkQueue } from "@muster/controller";
import { informer, listWatch, type Informer, type KubeResource } from "@muster/kube";
import { ownerIdOf } from "../domain/build-units.ts";
import type { Kind, KindDefaults } from "../domain/kind.ts";
import { jobKey } from "../domain/ownership.ts";
import { kindController, type KindController, type KindControllerDeps } from "./kind-controller.ts";
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
  readonly controller: KindController;
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

export type KindDeps = Pick<
  KindControllerDeps,
  "calls" | "pods" | "services" | "expectations" | "recordEvent" | "syncPeriodMs"
> & {
  readonly config: KubeConfig;
  readonly namespace: string;
  readonly defaults: KindDefaults;
  readonly workers: number;
  readonly onError: (error: unknown, retryInMs: number) => void;
};

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

  const controller = kindController(kind, {
    ...deps,
    jobs: () => jobs.list(),
    job,
    readJob: async (name) => read(await calls.get<JobResource>(resource, name)),
    enqueue: wake,
  });
  jobs.onChange(({ key, before, after }) => {
    if (after === undefined && before !== undefined) {
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
    distrust: written.forget,
    busyForMs,
    newQueue: () => {
      queue = workQueue();
      for (const each of jobs.list()) queue.add(jobKey(each));
      return queue;
    },
    controller,
    job,
    wrote: (each) => {
      const key = jobKey(each);
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

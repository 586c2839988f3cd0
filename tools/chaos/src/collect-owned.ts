import { setTimeout as sleep } from "node:timers/promises";
import { toKubeFault, unlessFault, type KubeCalls, type KubeObject, type KubeResource } from "@muster/kube";
import { NAMESPACE } from "./job-observer.ts";

const JOBS: KubeResource = { apiVersion: "muster.dev/v1", plural: "jobs", namespace: NAMESPACE };
/** Resources that the job-controller creates for a job. */
const OWNED: readonly KubeResource[] = [
  { apiVersion: "v1", plural: "pods", namespace: NAMESPACE },
  { apiVersion: "v1", plural: "services", namespace: NAMESPACE },
  { apiVersion: "policy/v1", plural: "poddisruptionbudgets", namespace: NAMESPACE },
];
const EVERY_MS = 500;

/** Deletes the objects of deleted jobs, like the garbage collector of a whole cluster, until disposal. */
export function startCollector(calls: KubeCalls): AsyncDisposable {
  const stop = new AbortController();
  const working = collectForEver(calls, stop.signal);
  return {
    [Symbol.asyncDispose]: () => {
      stop.abort();
      return working;
    },
  };
}

async function collectForEver(calls: KubeCalls, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await collect(calls).catch((error: unknown) => {
      // The API server may be unreachable.
      if (toKubeFault(error) === undefined) throw error;
    });
    await sleep(EVERY_MS, undefined, { signal }).catch(() => undefined);
  }
}

/** Lists the owners last, so that objects of a job created meanwhile are kept. */
async function collect(calls: KubeCalls): Promise<void> {
  const owned: { readonly resource: KubeResource; readonly object: KubeObject }[] = [];
  for (const resource of OWNED) {
    const { items } = await calls.list<KubeObject>(resource);
    owned.push(...items.map((object) => ({ resource, object })));
  }
  const { items: jobs } = await calls.list<KubeObject>(JOBS);
  const living = new Set(jobs.map(({ metadata }) => metadata?.uid));
  for (const { resource, object } of owned) {
    const { name = "", uid, deletionTimestamp, ownerReferences = [] } = object.metadata ?? {};
    const job = ownerReferences.find(({ kind }) => kind === "Job");
    if (job === undefined || living.has(job.uid) || deletionTimestamp !== undefined || uid === undefined) continue;
    await unlessFault(calls.delete(resource, name, { preconditions: { uid } }), "not_found", "conflict");
  }
}

import type { V1Job, V1Pod, V1PodTemplateSpec } from "@kubernetes/client-node";
import { openInformer, listWatch, loadKube, unlessFault, type KubeCalls, type KubeObject } from "@muster/kube";
import type { JobSetObject } from "../src/domain/batch/read-batch-job.ts";

const SETS = { apiVersion: "jobset.x-k8s.io/v1alpha2", plural: "jobsets" };
const JOBS = { apiVersion: "batch/v1", plural: "jobs" };
const PODS = { apiVersion: "v1", plural: "pods" };
const KEYS = {
  set: "jobset.sigs.k8s.io/jobset-name",
  job: "jobset.sigs.k8s.io/replicatedjob-name",
  restarts: "jobset.sigs.k8s.io/restart-attempt",
};

/** A JobSet as the API server returns it. */
export type TestJobSet = KubeObject & JobSetObject;

type Player = { readonly kubeconfig: string; readonly calls: KubeCalls; readonly namespace: string };
type Playing = Player & { readonly name: string };

/** Acts as the controller of JobSets: Jobs, their suspension, the conditions Suspended and Completed. */
export function playJobSets(player: Player): AsyncDisposable {
  return play(player, `/apis/${SETS.apiVersion}`, "jobsets", playJobSet, [{ path: "/apis/batch/v1", plural: "jobs" }]);
}

/** Acts as Kubernetes' controller of Jobs if that does not run: pods, the conditions Suspended and Complete. */
export function playJobs(player: Player): AsyncDisposable {
  return play(player, "/apis/batch/v1", "jobs", playJob, [{ path: "/api/v1", plural: "pods" }]);
}

/** Plays every object again after each change of it, or of an object that it controls. */
function play(
  player: Player,
  path: string,
  plural: string,
  playOne: (playing: Playing) => Promise<void>,
  dependents: readonly { readonly path: string; readonly plural: string }[],
): AsyncDisposable {
  const kube = loadKube(player.kubeconfig);
  const follow = (from: string, what: string) =>
    openInformer<KubeObject, string>({
      source: listWatch(kube, `${from}/namespaces/${player.namespace}/${what}`),
      project: ({ metadata }) => metadata?.name ?? "",
      timing: { maxBackoffMs: 500 },
    });
  const objects = follow(path, plural);
  const caches = [objects, ...dependents.map((each) => follow(each.path, each.plural))];
  let working = Promise.resolve();
  let isEnded = false;
  let isDue = false;
  const playAll = async (): Promise<void> => {
    isDue = false;
    for (const name of objects.list()) {
      // If another writer was first, its change plays the object again. Kubernetes refuses other templates until the pods are removed.
      await unlessFault(playOne({ ...player, name }), "conflict", "not_found", "already_exists", "invalid_request");
    }
  };
  for (const cache of caches)
    cache.onChange(() => {
      if (isDue || isEnded) return;
      isDue = true;
      working = working.then(() => (isEnded ? undefined : playAll()));
    });
  return {
    [Symbol.asyncDispose]: async () => {
      isEnded = true;
      await working;
      await Promise.all(caches.map((cache) => cache[Symbol.asyncDispose]()));
    },
  };
}

async function playJobSet({ calls, namespace, name }: Playing): Promise<void> {
  const set = await calls.get<TestJobSet>({ ...SETS, namespace }, name);
  if (set.metadata?.deletionTimestamp !== undefined) return;
  const suspend = set.spec?.suspend === true;
  const query = { labelSelector: `${KEYS.set}=${name}` };
  const { items } = await calls.list<V1Job>({ ...JOBS, namespace }, { query });
  const jobs = new Map(items.map((job) => [job.metadata?.name, job]));
  const complete: boolean[] = [];
  for (const { name: of = "", replicas = 1, template } of set.spec?.replicatedJobs ?? []) {
    const gates = template?.spec?.template?.spec?.schedulingGates ?? [];
    for (let index = 0; index < replicas; index += 1) {
      const job = jobs.get(`${name}-${of}-${index}`);
      complete.push(job !== undefined && isTrue(job, "Complete"));
      if (job === undefined) await calls.create({ ...JOBS, namespace }, buildJob(set, of, index));
      else if (!isTrue(job, "Complete")) await suspendJob({ calls, namespace }, job, { suspend, gates });
    }
  }
  const isCompleted = complete.every(Boolean);
  if (isTrue(set, "Suspended") === suspend && isTrue(set, "Completed") === isCompleted) return;
  const conditions = [conditionOf("Suspended", suspend), conditionOf("Completed", isCompleted)];
  const patch = { kind: "merge", body: { status: { conditions } } } as const;
  await calls.patch({ ...SETS, namespace }, name, patch, { subresource: "status" });
}

function buildJob({ metadata, spec }: TestJobSet, of: string, index: number): KubeObject {
  const { name = "", uid = "", namespace = "" } = metadata ?? {};
  const written = spec?.replicatedJobs?.find((each) => each.name === of)?.template;
  const { metadata: own, spec: job } = (written ?? {}) as { metadata?: V1Job["metadata"]; spec?: V1Job["spec"] };
  const added = { [KEYS.set]: name, [KEYS.job]: of, [KEYS.restarts]: "0" };
  const template: V1PodTemplateSpec = {
    ...job?.template,
    metadata: { ...job?.template.metadata, labels: { ...job?.template.metadata?.labels, ...added } },
  };
  const owner = { apiVersion: SETS.apiVersion, kind: "JobSet", name, uid, controller: true };
  return {
    apiVersion: JOBS.apiVersion,
    kind: "Job",
    metadata: {
      namespace,
      name: `${name}-${of}-${index}`,
      labels: { ...own?.labels, ...added },
      ownerReferences: [owner],
    },
    spec: { ...job, template, suspend: spec?.suspend === true },
  } as KubeObject;
}

async function suspendJob(
  { calls, namespace }: Pick<Player, "calls" | "namespace">,
  { metadata, spec, status }: V1Job,
  { suspend, gates }: { readonly suspend: boolean; readonly gates: readonly { readonly name: string }[] },
): Promise<void> {
  if ((spec?.suspend === true) === suspend) return;
  const jobs = { ...JOBS, namespace };
  const name = metadata?.name ?? "";
  const clear = { kind: "merge", body: { status: { startTime: null } } } as const;
  if (!suspend && status?.startTime !== undefined) await calls.patch(jobs, name, clear, { subresource: "status" });
  const resumed = { suspend, template: { spec: { schedulingGates: gates } } };
  await calls.patch(jobs, name, { kind: "merge", body: { spec: suspend ? { suspend } : resumed } });
}

async function playJob({ calls, namespace, name }: Playing): Promise<void> {
  const job = await calls.get<V1Job>({ ...JOBS, namespace }, name);
  if (job.metadata?.deletionTimestamp !== undefined) return;
  const { suspend = false, parallelism = 1, completions = 1 } = job.spec ?? {};
  const { items } = await calls.list<V1Pod>({ ...PODS, namespace }, { query: { labelSelector: `job-name=${name}` } });
  const succeeded = items.filter(({ status }) => status?.phase === "Succeeded").length;
  const active = items.filter(({ status }) => status?.phase !== "Succeeded" && status?.phase !== "Failed");
  const wanted = suspend ? 0 : Math.min(parallelism, completions - succeeded);
  const used = new Set(items.map(({ metadata }) => metadata?.name));
  for (const { metadata } of suspend ? active : [])
    if (metadata?.deletionTimestamp === undefined) await calls.delete({ ...PODS, namespace }, metadata?.name ?? "");
  for (let index = 0, missing = wanted - active.length; missing > 0; index += 1) {
    if (used.has(`${name}-${index}`)) continue;
    missing -= 1;
    await calls.create({ ...PODS, namespace }, buildPod(job, `${name}-${index}`));
  }
  const isComplete = succeeded >= completions;
  const isSuspended = suspend && active.length === 0;
  const isSeen = (job.status?.succeeded ?? 0) === succeeded && (job.status?.active ?? 0) === active.length;
  if (isSeen && isTrue(job, "Suspended") === isSuspended && isTrue(job, "Complete") === isComplete) return;
  const conditions = [conditionOf("Suspended", isSuspended), conditionOf("Complete", isComplete)];
  const startTime = suspend ? null : new Date(0).toISOString();
  const patch = {
    kind: "merge",
    body: { status: { conditions, succeeded, active: active.length, startTime } },
  } as const;
  await calls.patch({ ...JOBS, namespace }, name, patch, { subresource: "status" });
}

function buildPod({ metadata, spec }: V1Job, name: string): KubeObject {
  const { name: job = "", uid = "", namespace = "" } = metadata ?? {};
  const template = spec?.template;
  const labels = { ...template?.metadata?.labels, "job-name": job, "batch.kubernetes.io/controller-uid": uid };
  const owner = { apiVersion: "batch/v1", kind: "Job", name: job, uid, controller: true };
  return { metadata: { namespace, name, labels, ownerReferences: [owner] }, spec: template?.spec } as KubeObject;
}

function conditionOf(type: string, is: boolean): object {
  const lastTransitionTime = new Date(0).toISOString();
  return { type, status: is ? "True" : "False", reason: type, message: "", lastTransitionTime };
}

function isTrue(object: object, type: string): boolean {
  const { status } = object as { status?: { conditions?: readonly { type: string; status: string }[] } };
  return status?.conditions?.some((each) => each.type === type && each.status === "True") === true;
}

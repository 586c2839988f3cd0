import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { KubeConfig, V1Pod } from "@kubernetes/client-node";
import { openInformer, type KubeCalls } from "@muster/kube";
import { type ClusterApi, makeRemoteApi } from "../cluster-api.ts";
import type { NodeFacts, NodeTaint } from "./build-node.ts";
import { claimDirectory } from "./claim-directory.ts";
import { type KubeletAccess, startKubeletServer } from "./kubelet-server.ts";
import { makeContainerEventRecorder, makeStopSignal } from "./container-event-recorder.ts";
import { isMissingImage } from "./missing-image.ts";
import { makeKubeletCertificate } from "./kubelet-certificate.ts";
import { readSystem, startHeartbeat } from "./node-heartbeat.ts";
import { makeNodeApi } from "./node-api.ts";
import { makePodApi } from "./pod-api.ts";
import { claimPodAddresses } from "./pod-addresses.ts";
import { PodWorker, type PodWorkerDeps } from "./pod-worker.ts";
import { makeProcessRuntime } from "./process-runtime.ts";
import { killLeftovers } from "./process-tree.ts";
import { withoutManagedFields } from "../without-managed-fields.ts";

export type KubeletOptions = {
  readonly kubeconfig: KubeConfig;
  /** Default: over HTTP, with the kubeconfig. */
  readonly api?: ClusterApi;
  readonly nodeName: string;
  /** The directory for only this node: logs, working directories, and records of its processes. */
  readonly directory: string;
  /** 0 to 249; pods get addresses in 127.<nodeIndex + 1>/16. */
  readonly nodeIndex: number;
  readonly labels?: Readonly<Record<string, string>>;
  /** As `--register-with-taints`: set only when the node is created. */
  readonly taints?: readonly NodeTaint[];
  /** Kubernetes quantities; default 4 cpu, 8Gi memory, 110 pods. Not enforced for processes. */
  readonly capacity?: Readonly<Record<string, string>>;
  /** In PEM. Default: a new certificate for 127.0.0.1. */
  readonly certificate?: { readonly cert: string; readonly key: string };
  /** Authorizes readers of logs. */
  readonly access: KubeletAccess;
  /** PATH of the pods' processes, after the directory of this process's `node`. */
  readonly path?: string;
  /** Time between SIGTERM and SIGKILL when the kubelet stops; default 2000. */
  readonly stopGraceMs?: number;
  /** The clock of back-off, probes and grace periods. */
  readonly now?: () => number;
  /** Rejects the start when it aborts before the node is ready; ignored afterwards. */
  readonly signal?: AbortSignal;
  /** Called with every failure; the kubelet continues. */
  readonly onError?: (error: unknown, doing: string) => void;
};

/** A node. Disposal marks it as not ready and ends its processes. */
export type Kubelet = AsyncDisposable & {
  readonly nodeName: string;
  readonly port: number;
  /** Turns the machine off: kills its processes without a report. Do not dispose afterwards. */
  readonly die: () => Promise<void>;
};

/** Nodes report ephemeral storage, because the LimitRange of a slice makes every pod request some. */
const DEFAULT_CAPACITY = { cpu: "4", memory: "8Gi", "ephemeral-storage": "100Gi", pods: "110" };
const STOP_GRACE_MS = 2_000;
const TICK_MS = 100;
const CALL_TIMEOUT_MS = 15_000;

/**
 * Starts a node that runs the containers of its pods as local processes, after it has ended leftover processes of the same directory. Refuses a directory that
 * another process uses. Resolves when the node is ready.
 */
export async function startKubelet(options: KubeletOptions): Promise<Kubelet> {
  const { nodeName, directory, onError = () => undefined, now = Date.now } = options;
  const api = options.api ?? makeRemoteApi(options.kubeconfig);
  await using started = new AsyncDisposableStack();
  started.use(claimDirectory(directory));
  await killLeftovers(directory);
  const addresses = started.use(await claimPodAddresses(options.nodeIndex));
  const calls = started.use(api.calls({ timeoutMs: CALL_TIMEOUT_MS }));
  const stopped = makeStopSignal(started);
  const workers = new Map<string, PodWorker>();
  let isOff = false;
  const server = started.use(
    await startKubeletServer({
      certificate: options.certificate ?? (await makeKubeletCertificate()),
      access: options.access,
      now,
      findLog: (which) => find(workersByName, which, (worker) => worker.findLog(which.container, which.previous)),
      findExec: (which) => find(workersByName, which, (worker) => worker.findExec(which.container)),
    }),
  );
  started.defer(async () => {
    const graceMs = isOff ? 0 : (options.stopGraceMs ?? STOP_GRACE_MS);
    await Promise.all([...workers.values()].map((worker) => worker.stop(graceMs)));
  });

  const pods = started.use(
    openInformer<V1Pod, V1Pod>({
      source: api.listWatch<V1Pod>("/api/v1/pods", { fieldSelector: `spec.nodeName=${nodeName}` }),
      project: withoutManagedFields,
      onError: (error) => onError(error, `watching the pods of node ${nodeName}`),
    }),
  );
  const workersByName = (key: string): PodWorker | undefined => workers.get(pods.get(key)?.metadata?.uid ?? "");
  const ensureWorker = (pod: V1Pod): void => {
    const uid = pod.metadata?.uid ?? "";
    if (workers.has(uid)) return;
    const onDone = (): void => void workers.delete(uid);
    workers.set(uid, makeWorker(pod, options, { calls, addresses, stopped, cached: pods.get, onDone }));
  };
  pods.onChange(({ before, after }) => {
    if (after !== undefined) ensureWorker(after);
    for (const pod of [before, after]) workers.get(pod?.metadata?.uid ?? "")?.poke();
  });
  await orAborted(pods.synced, options.signal);
  for (const pod of pods.list()) ensureWorker(pod);
  removeForeignDirectories(directory, workers);

  const ticker = setInterval(() => {
    const nowMs = now();
    for (const worker of workers.values()) worker.tick(nowMs);
  }, TICK_MS);
  started.defer(() => clearInterval(ticker));
  const heartbeat = started.use(startHeartbeat(makeNodeApi(calls, now), buildFacts(options, server.port), onError));
  await orAborted(heartbeat.ready, options.signal);
  const all = started.move();
  return {
    nodeName,
    port: server.port,
    die: () => {
      isOff = true;
      heartbeat.fallSilent();
      return all.disposeAsync();
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

type WorkerDeps = Pick<PodWorkerDeps, "addresses" | "onDone"> & {
  readonly calls: KubeCalls;
  readonly stopped: AbortSignal;
  readonly cached: (key: string) => V1Pod | undefined;
};

/** Runs the containers of one pod as processes. */
function makeWorker(pod: V1Pod, options: KubeletOptions, deps: WorkerDeps): PodWorker {
  const { nodeName, directory, onError = () => undefined, now = Date.now } = options;
  const { calls, addresses, stopped, cached, onDone } = deps;
  const { name = "", namespace = "", uid = "" } = pod.metadata ?? {};
  const { config, ...ownApi } = makePodApi(calls, { name, namespace, uid });
  return new PodWorker(pod, {
    ...ownApi,
    runtime: makeProcessRuntime(pod, { now, config, nodeDirectory: directory, path: options.path }),
    now,
    pod: () => {
      const current = cached(`${namespace}/${name}`);
      return current?.metadata?.uid === uid ? current : undefined;
    },
    addresses,
    isImageMissing: isMissingImage,
    record: makeContainerEventRecorder(calls, { name, namespace, uid }, { nodeName, now, onError, stopped }),
    onError,
    onDone,
  });
}

function buildFacts({ nodeName, labels = {}, taints, capacity }: KubeletOptions, port: number): NodeFacts {
  return {
    name: nodeName,
    labels,
    ...(taints === undefined ? {} : { taints }),
    capacity: { ...DEFAULT_CAPACITY, ...capacity },
    port,
    system: readSystem(),
  };
}

/** Rejects if the signal aborts first, because without an API server the promise may never resolve. */
async function orAborted<Value>(coming: Promise<Value>, signal: AbortSignal | undefined): Promise<Value> {
  if (signal === undefined) return coming;
  signal.throwIfAborted();
  const aborted = Promise.withResolvers<never>();
  const abort = (): void => aborted.reject(signal.reason as Error);
  signal.addEventListener("abort", abort);
  try {
    return await Promise.race([coming, aborted.promise]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

type NotFound = { readonly found: false; readonly status: 404; readonly message: string };

function find<Found>(
  workerOf: (key: string) => PodWorker | undefined,
  which: { readonly namespace: string; readonly pod: string },
  ask: (worker: PodWorker) => Found,
): Found | NotFound {
  const worker = workerOf(`${which.namespace}/${which.pod}`);
  if (worker !== undefined) return ask(worker);
  return { found: false, status: 404, message: `pod "${which.pod}" is not on this node` };
}

/** Removes directories of pods that were deleted while the kubelet did not run. */
function removeForeignDirectories(directory: string, workers: ReadonlyMap<string, PodWorker>): void {
  for (const uid of readdirSync(join(directory, "pods"))) {
    if (!workers.has(uid)) rmSync(join(directory, "pods", uid), { recursive: true, force: true });
  }
}

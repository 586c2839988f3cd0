import { kubeCalls, loadKube, type KubeCalls } from "@muster/kube";
import type { KubeConfiguration } from "../config.ts";
import { openCrashWatch, type CrashWatch } from "./crash-watch.ts";
import { leaseObjects, type LeaseObjects } from "./lease-objects.ts";

/** The Kubernetes cluster that leases live in. */
export type Cluster = Pick<KubeConfiguration, "namespace" | "storageClasses"> & {
  readonly calls: KubeCalls;
  readonly objects: LeaseObjects;
  readonly crashes: CrashWatch;
};

const CALL_TIMEOUT_MS = 10_000;

/** Opens what is needed of it, also while the API server is away. Disposing cuts the calls that are under way. */
export function openCluster(
  { kubeconfig, ...rest }: KubeConfiguration,
  onProblem: (error: unknown, retryInMs: number) => void,
): Cluster & AsyncDisposable {
  const config = loadKube(kubeconfig);
  const opened = new AsyncDisposableStack();
  const calls = opened.use(kubeCalls(config, { timeoutMs: CALL_TIMEOUT_MS }));
  const crashes = opened.use(openCrashWatch(config, onProblem));
  return { ...rest, calls, objects: leaseObjects(calls), crashes, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}

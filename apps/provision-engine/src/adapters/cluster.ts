import { kubeCalls, loadKube, type KubeCalls } from "@muster/kube";
import type { KubeConfiguration } from "../config.ts";
import { leaseObjects, type LeaseObjects } from "./lease-objects.ts";

/** The Kubernetes cluster that leases live in. */
export type Cluster = Pick<KubeConfiguration, "namespace" | "storageClasses"> & {
  readonly calls: KubeCalls;
  readonly objects: LeaseObjects;
};

const CALL_TIMEOUT_MS = 10_000;

/** Sends nothing yet: the API server may be away. Disposing cuts the calls that are under way. */
export function openCluster({ kubeconfig, ...rest }: KubeConfiguration): Cluster & AsyncDisposable {
  const calls = kubeCalls(loadKube(kubeconfig), { timeoutMs: CALL_TIMEOUT_MS });
  return { ...rest, calls, objects: leaseObjects(calls), [Symbol.asyncDispose]: () => calls[Symbol.asyncDispose]() };
}

import type { V1ResourceQuota } from "@kubernetes/client-node";
import { throwFault } from "@muster/faults";
import type { KubeObject } from "@muster/kube";
import type { Cluster } from "../adapters/cluster.ts";
import type { Look, ObjectKind } from "../adapters/lease-objects.ts";
import { KINDS } from "../adapters/object-kinds.ts";
import { buildNetworkNamespace } from "../domain/build-network.ts";
import {
  buildKubeconfig,
  buildSliceAccount,
  buildSliceBinding,
  buildSliceLimits,
  buildSlicePriorities,
  buildSliceQuota,
  sliceNamespace,
  SLICE_ACCOUNT,
  tokenSeconds,
} from "../domain/build-slice.ts";
import { KUBERNETES } from "../domain/type-kubernetes.ts";
import { originOf, type LeaseRecord } from "../domain/lease.ts";
import { requireData } from "./require-data.ts";
import type { Workload } from "./workload.ts";

/** What Kubernetes itself gives a pod to end. Its user may have said far more, or have begun to delete it with more: a lease does not go on for as long as he likes. */
const POD_GRACE_SECONDS = 30;
const GOING: ObjectKind = { ...KINDS.namespace, podGraceSeconds: POD_GRACE_SECONDS };

/**
 * A slice of the cluster: a namespace with a quota and what containers take that do not say it, and an account that may do there what the role of slices says. The result has a kubeconfig with a token, which holds
 * until the lease ends as it stands now: whoever renews it makes himself a new one with it.
 */
export function kubernetesWorkload(
  { objects, slices, accessOf }: Pick<Cluster, "objects" | "slices" | "accessOf">,
  nowNs: () => bigint,
): Workload {
  const make = async (lease: LeaseRecord, signal: AbortSignal): Promise<string> => {
    const { size } = requireData(KUBERNETES, lease);
    const { role } = slices;
    const namespace = sliceNamespace(originOf(lease).id);
    // A binding to a role that is not there would be taken, and give nothing.
    if ((await objects.find(KINDS.clusterRole, { name: role }, signal)) === undefined)
      throwFault({ code: "not_found", kind: "ClusterRole", id: role });
    await objects.make(lease, KINDS.namespace, buildNetworkNamespace(namespace), signal);
    const quotas = [buildSliceQuota(namespace, size), buildSlicePriorities(namespace)];
    for (const quota of quotas) await objects.make<KubeObject>(lease, KINDS.resourceQuota, quota, signal);
    await objects.make(lease, KINDS.limitRange, buildSliceLimits(namespace), signal);
    // Until its numbers are counted, nothing is refused.
    for (const quota of quotas)
      await objects.until(async (): Promise<Look<undefined>> => {
        const found = await objects.find<V1ResourceQuota>(KINDS.resourceQuota, quota.metadata, signal);
        const { hard = {} } = found?.status ?? {};
        const isCounted = Object.keys(quota.spec.hard).every((name) => name in hard);
        return isCounted ? { is: "there", value: undefined } : { is: "awaited", because: "the count of the quota" };
      }, signal);
    await objects.make(lease, KINDS.serviceAccount, buildSliceAccount(namespace), signal);
    await objects.make(lease, KINDS.roleBinding, buildSliceBinding(namespace, role), signal);
    return namespace;
  };
  return {
    type: KUBERNETES.type,
    provision: async (lease, signal) => {
      const namespace = await make(lease, signal);
      const seconds = tokenSeconds(lease.expiresAtNs, nowNs());
      const { expiresAt, ...access } = await accessOf({ name: SLICE_ACCOUNT, namespace }, seconds, signal);
      const kubeconfig = buildKubeconfig({ ...access, namespace });
      return JSON.stringify({ namespace, kubeconfig, token_expires_at: expiresAt });
    },
    // The token that its user has holds on.
    check: async (lease, signal) => {
      await make(lease, signal);
      return undefined;
    },
    // All of it lives in the namespace.
    decommission: (lease, signal) => objects.takeDown(lease, { kinds: [GOING] }, signal),
  };
}

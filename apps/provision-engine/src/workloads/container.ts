import type { V1Deployment, V1PersistentVolumeClaim, V1Pod, V1Service } from "@kubernetes/client-node";
import { throwFault } from "@muster/faults";
import type { Cluster } from "../adapters/cluster.ts";
import type { Look } from "../adapters/lease-objects.ts";
import { KINDS } from "../adapters/object-kinds.ts";
import {
  buildContainerSecret,
  buildContainerService,
  buildDeployment,
  type ContainerOptions,
} from "../domain/build-container.ts";
import { CONTAINER } from "../domain/type-container.ts";
import { describeHopelessStart, describePods, isHindered } from "../domain/describe-pods.ts";
import { describeCrashes, readExits } from "../domain/count-exits.ts";
import { describeNodes } from "../domain/lease-nodes.ts";
import { originOf, type LeaseRecord } from "../domain/lease.ts";
import { isOfUser, leaseLabels } from "./lease-labels.ts";
import { leaseName, namespaceOf } from "./lease-place.ts";
import { requireData } from "./require-data.ts";
import type { AskedLease, Workload } from "./workload.ts";

const PARTS = [KINDS.deployment, KINDS.service, KINDS.secret];

/** The lease that what another one has was made for first. */
export type NameOf = (lease: string) => string;

/** A container that is kept alive, in one pod. The result says where it is reached. */
export function containerWorkload({ objects, namespace: own, nodes }: Cluster, nameOf: NameOf): Workload {
  const requireVolumes = async (options: ContainerOptions, { order }: LeaseRecord, signal: AbortSignal) => {
    const { namespace } = options.place;
    for (const { volume_id } of options.data.mounts) {
      const at = { name: options.claimOf(volume_id), namespace };
      const claim = await objects.find<V1PersistentVolumeClaim>(KINDS.volumeClaim, at, signal);
      const isThere = claim !== undefined && claim.metadata?.deletionTimestamp === undefined;
      // The record of the volume was asked before; this is what would be mounted.
      if (!isThere || !isOfUser(claim.metadata?.labels, nameOf(volume_id), order.user))
        throwFault({ code: "not_found", kind: "volume of this user", id: volume_id });
    }
  };
  const untilAvailable = (options: ContainerOptions, lease: AskedLease, signal: AbortSignal): Promise<undefined> =>
    objects.until(async (): Promise<Look<undefined>> => {
      const deployment = await objects.find<V1Deployment>(KINDS.deployment, options.place, signal);
      if ((deployment?.status?.availableReplicas ?? 0) > 0) return { is: "there", value: undefined };
      const pods = await objects.list<V1Pod>(lease, KINDS.pod, options.place.namespace, signal);
      const crashes = describeCrashes(pods.map(readExits));
      if (crashes !== undefined) throwFault({ code: "invalid_request", field: "container", reason: crashes });
      const hopeless = describeHopelessStart(pods);
      if (hopeless !== undefined) throwFault({ code: "invalid_request", ...hopeless });
      const because = `the start of the container (${describePods(pods, describeNodes(nodes))})`;
      if (isHindered(pods)) await lease.waits?.(because);
      return { is: "awaited", because };
    }, signal);

  return {
    type: CONTAINER.type,
    provision: async (lease, signal) => {
      const data = requireData(CONTAINER, lease);
      const place = { name: leaseName(originOf(lease).id), namespace: namespaceOf(lease.order, own) };
      const options = {
        place,
        labels: leaseLabels(lease),
        data,
        nodes,
        claimOf: (volume: string) => leaseName(nameOf(volume)),
      };
      await requireVolumes(options, lease, signal);
      const secret = buildContainerSecret(options);
      if (secret !== undefined) await objects.make(lease, KINDS.secret, secret, signal);
      const service = await objects.make<V1Service>(lease, KINDS.service, buildContainerService(options), signal);
      await objects.make(lease, KINDS.deployment, buildDeployment(options), signal);
      await untilAvailable(options, lease, signal);
      return JSON.stringify(addressOf(service, options));
    },
    decommission: (lease, signal) =>
      objects.takeDown(lease, { kinds: PARTS, namespace: namespaceOf(lease.order, own) }, signal),
  };
}

function addressOf({ spec }: V1Service, { place, data }: ContainerOptions) {
  const addresses = (spec?.clusterIPs ?? []).filter((address) => address !== "None");
  return {
    namespace: place.namespace,
    host: `${place.name}.${place.namespace}.svc`,
    addresses,
    ports: data.ports,
  };
}

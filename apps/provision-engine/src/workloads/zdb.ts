import type { V1Pod, V1Service, V1StatefulSet } from "@kubernetes/client-node";
import { throwFault } from "@muster/faults";
import type { Cluster } from "../adapters/cluster.ts";
import type { Look } from "../adapters/lease-objects.ts";
import { KINDS } from "../adapters/object-kinds.ts";
import { buildVolumeClaim } from "../domain/build-volume.ts";
import { buildZdbSecret, buildZdbService, buildZdbSet } from "../domain/build-zdb.ts";
import { describeNodes } from "../domain/lease-nodes.ts";
import { originOf } from "../domain/lease.ts";
import { ZDB } from "../domain/type-zdb.ts";
import { describePods, isHindered } from "../domain/describe-pods.ts";
import { leaseLabels } from "./lease-labels.ts";
import { leaseName, namespaceOf } from "./lease-place.ts";
import { requireClaim } from "./require-claim.ts";
import { requireData } from "./require-data.ts";
import type { Workload } from "./workload.ts";

/** The claim goes last: it is held as long as the pod is there. */
const PARTS = [KINDS.statefulSet, KINDS.service, KINDS.secret, KINDS.volumeClaim];

const NOT_SERVED = "zdb is not served by this engine: PROVISION_ZDB_IMAGE is not set";

/** A key-value store with a disk of its own. The result says where it is reached, and not its password. */
export function zdbWorkload({
  objects,
  namespace: own,
  storageClasses,
  zdb: configured,
  nodes,
}: Pick<Cluster, "objects" | "namespace" | "storageClasses" | "zdb" | "nodes">): Workload {
  const requireStore = () => configured ?? throwFault({ code: "invalid_request", field: "type", reason: NOT_SERVED });
  const provision: Workload["provision"] = async (lease, signal) => {
    const store = requireStore();
    const data = requireData(ZDB, lease);
    const place = { name: leaseName(originOf(lease).id), namespace: namespaceOf(lease.order, own) };
    const options = { place, labels: leaseLabels(lease), data, store, nodes };
    const claim = buildVolumeClaim(place, { size: data.size }, storageClasses[data.disk_type]);
    await objects.make(lease, KINDS.volumeClaim, claim, signal);
    await objects.make(lease, KINDS.secret, buildZdbSecret(options), signal);
    const service = await objects.make<V1Service>(lease, KINDS.service, buildZdbService(options), signal);
    await objects.make(lease, KINDS.statefulSet, buildZdbSet(options), signal);
    await objects.until(async (): Promise<Look<undefined>> => {
      const set = await objects.find<V1StatefulSet>(KINDS.statefulSet, place, signal);
      if ((set?.status?.readyReplicas ?? 0) > 0) return { is: "there", value: undefined };
      const pods = await objects.list<V1Pod>(lease, KINDS.pod, place.namespace, signal);
      const because = `the start of the store (${describePods(pods, describeNodes(nodes))})`;
      if (isHindered(pods)) await lease.waits?.(because);
      return { is: "awaited", because };
    }, signal);
    const addresses = (service.spec?.clusterIPs ?? []).filter((address) => address !== "None");
    const host = `${place.name}.${place.namespace}.svc`;
    return JSON.stringify({ namespace: place.namespace, host, addresses, port: store.port });
  };
  return {
    type: ZDB.type,
    provision,
    tryOut: () => Promise.resolve().then(() => void requireStore()),
    check: async (lease, signal) => {
      await requireClaim(objects, lease, namespaceOf(lease.order, own), signal);
      return provision(lease, signal);
    },
    decommission: (lease, signal) =>
      objects.takeDown(lease, { kinds: PARTS, namespace: namespaceOf(lease.order, own) }, signal),
  };
}

import type { V1Pod, V1Service, V1StatefulSet } from "@kubernetes/client-node";
import { throwFault } from "@muster/faults";
import type { LeaseData } from "@muster/leases/data";
import { computeDiskUnits, GIB, NO_UNITS, type ResourceUnits } from "../domain/claim.ts";
import { buildLeaseLabels, type ObjectPlace } from "./lease-names.ts";
import { KINDS } from "./object-kinds.ts";
import { buildPod, describeNodes, describePods, isBlocked, type LeaseNodes } from "./pods.ts";
import { buildVolumeClaim, requireClaim } from "./volume.ts";
import { getLeasePlace, requireData, makeWorkloadType } from "./workload-type.ts";
import type { LeaseCluster, Observation, Workload, ZdbImage } from "./workload.ts";

export const ZDB = makeWorkloadType({
  type: "zdb",
  counter: "zdb",
  rank: 3,
  claimOf: ({ size, disk_type, network }) => ({
    units: computeDiskUnits(disk_type, BigInt(size) * GIB),
    network: undefined,
    needs: { networks: network === undefined ? [] : [network], volumes: [] },
  }),
  workload: ({ cluster }) => cluster && makeZdbWorkload(cluster),
});

type ZdbOptions = {
  readonly place: ObjectPlace;
  /** Labels that select the pod and mark it as the lease's own. */
  readonly labels: Readonly<Record<string, string>>;
  readonly data: LeaseData<"zdb">;
  readonly store: ZdbImage;
  readonly nodes: LeaseNodes;
};

const CONTAINER_NAME = "zdb";
const DATA_PATH = "/data";
const PASSWORD = "password";
const BYTES_PER_GIB = 2n ** 30n;

/** Resources of a store beyond the resources in its order. The node's own disk counts as SSD. */
export function computeZdbOverhead({
  cpus,
  memoryBytes,
  diskBytes,
}: Pick<ZdbImage, "cpus" | "memoryBytes" | "diskBytes">): ResourceUnits {
  return { ...NO_UNITS, cru: BigInt(cpus), mru: BigInt(memoryBytes), sru: BigInt(diskBytes) };
}

function buildZdbSecret({ place, data }: Pick<ZdbOptions, "place" | "data">) {
  return { metadata: place, stringData: { [PASSWORD]: data.password } };
}

/** The stable address of the store, wherever its pod runs. */
function buildZdbService({ place, labels, store }: Pick<ZdbOptions, "place" | "labels" | "store">) {
  const { port } = store;
  return {
    metadata: place,
    spec: { selector: labels, ports: [{ name: "zdb", port, targetPort: port, protocol: "TCP" }] },
  };
}

/** One pod with the claim of the same name. The store reads its settings from its environment variables, which its command may use as `$(ZDB_MODE)`. */
export function buildZdbSet({ place, labels, data, store, nodes }: ZdbOptions) {
  const { image, command, port, cpus, memoryBytes, diskBytes } = store;
  return {
    metadata: place,
    spec: {
      replicas: 1,
      revisionHistoryLimit: 0,
      serviceName: place.name,
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: buildPod({
          container: {
            name: CONTAINER_NAME,
            image,
            ...(command !== undefined && { command: [...command] }),
            env: [
              { name: "ZDB_MODE", value: data.mode },
              { name: "ZDB_PUBLIC", value: String(data.public) },
              { name: "ZDB_SIZE_BYTES", value: String(BigInt(data.size) * BYTES_PER_GIB) },
              { name: "ZDB_PORT", value: String(port) },
              { name: "ZDB_DATA", value: DATA_PATH },
              { name: "ZDB_ADDRESS", valueFrom: { fieldRef: { fieldPath: "status.podIP" } } },
              { name: "ZDB_PASSWORD", valueFrom: { secretKeyRef: { name: place.name, key: PASSWORD } } },
            ],
            ports: [{ name: "zdb", containerPort: port, protocol: "TCP" }],
            readinessProbe: { tcpSocket: { port }, periodSeconds: 2 },
            volumeMounts: [{ name: "data", mountPath: DATA_PATH }],
          },
          resources: { cpu: String(cpus), memory: String(memoryBytes), "ephemeral-storage": String(diskBytes) },
          nodes,
          volumes: [{ name: "data", persistentVolumeClaim: { claimName: place.name } }],
        }),
      },
    },
  };
}

/** The claim is last, because a running pod keeps it. */
const OBJECT_KINDS = [KINDS.statefulSet, KINDS.service, KINDS.secret, KINDS.volumeClaim];

const NOT_SERVED = "zdb is not served by this engine: PROVISION_ZDB_IMAGE is not set";

/** A key-value store with its own disk. The result has its address, without the password. */
export function makeZdbWorkload({
  objects,
  namespace: own,
  storageClasses,
  zdb: configured,
  nodes,
}: Pick<LeaseCluster, "objects" | "namespace" | "storageClasses" | "zdb" | "nodes">): Workload {
  const requireStore = () => configured ?? throwFault({ code: "invalid_request", field: "type", reason: NOT_SERVED });
  const provision: Workload["provision"] = async (lease, signal) => {
    const store = requireStore();
    const data = requireData(ZDB, lease);
    const place = getLeasePlace(ZDB, lease, own);
    const options = { place, labels: buildLeaseLabels(lease), data, store, nodes };
    const claim = buildVolumeClaim(place, { size: data.size }, storageClasses[data.disk_type]);
    await objects.ensure(lease, KINDS.volumeClaim, claim, signal);
    await objects.ensure(lease, KINDS.secret, buildZdbSecret(options), signal);
    const service = await objects.ensure<V1Service>(lease, KINDS.service, buildZdbService(options), signal);
    await objects.ensure(lease, KINDS.statefulSet, buildZdbSet(options), signal);
    await objects.untilReady(async (): Promise<Observation<undefined>> => {
      const set = await objects.find<V1StatefulSet>(KINDS.statefulSet, place, signal);
      if ((set?.status?.readyReplicas ?? 0) > 0) return { kind: "ready", value: undefined };
      const pods = await objects.list<V1Pod>(lease, KINDS.pod, place.namespace, signal);
      const because = `the start of the store (${describePods(pods, describeNodes(nodes))})`;
      if (isBlocked(pods)) await lease.onWait?.(because);
      return { kind: "pending", because };
    }, signal);
    const addresses = (service.spec?.clusterIPs ?? []).filter((address) => address !== "None");
    const host = `${place.name}.${place.namespace}.svc`;
    return JSON.stringify({ namespace: place.namespace, host, addresses, port: store.port });
  };
  return {
    type: ZDB.type,
    provision,
    preflight: () => Promise.resolve().then(() => void requireStore()),
    check: async (lease, signal) => {
      await requireClaim(objects, lease, getLeasePlace(ZDB, lease, own), signal);
      return provision(lease, signal);
    },
    decommission: (lease, signal) =>
      objects.remove(lease, { kinds: OBJECT_KINDS, namespace: getLeasePlace(ZDB, lease, own).namespace }, signal),
  };
}

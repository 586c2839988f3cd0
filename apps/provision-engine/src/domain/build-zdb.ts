import { buildPod } from "./build-pod.ts";
import type { Place } from "./build-volume.ts";
import type { LeaseNodes } from "./lease-nodes.ts";
import type { LeaseData } from "@muster/leases/data";
import { NO_UNITS, type ResourceUnits } from "./resource-units.ts";

/** What runs a key-value store; each engine has one. */
export type ZdbImage = {
  readonly image: string;
  /** Undefined: the image's own. */
  readonly command: readonly string[] | undefined;
  readonly port: number;
  /** What each may take, and is counted to take beside its disk. */
  readonly cpus: number;
  readonly memoryBytes: number;
  /** Of its root file system and its log, on the disk of its node. */
  readonly diskBytes: number;
};

export type ZdbOptions = {
  readonly place: Place;
  /** By which the pod is found, and known to be the lease's. */
  readonly labels: Readonly<Record<string, string>>;
  readonly data: LeaseData<"zdb">;
  readonly store: ZdbImage;
  readonly nodes: LeaseNodes;
};

const CONTAINER_NAME = "zdb";
const DATA_PATH = "/data";
const PASSWORD = "password";
const BYTES_PER_GIB = 2n ** 30n;

/** What a store takes beside what its order says. A node's own disk counts as SSD. */
export function zdbOverhead({
  cpus,
  memoryBytes,
  diskBytes,
}: Pick<ZdbImage, "cpus" | "memoryBytes" | "diskBytes">): ResourceUnits {
  return { ...NO_UNITS, cru: BigInt(cpus), mru: BigInt(memoryBytes), sru: BigInt(diskBytes) };
}

export function buildZdbSecret({ place, data }: Pick<ZdbOptions, "place" | "data">) {
  return { metadata: place, stringData: { [PASSWORD]: data.password } };
}

/** The address of the store as long as it lives, wherever its pod is. */
export function buildZdbService({ place, labels, store }: Pick<ZdbOptions, "place" | "labels" | "store">) {
  const { port } = store;
  return {
    metadata: place,
    spec: { selector: labels, ports: [{ name: "zdb", port, targetPort: port, protocol: "TCP" }] },
  };
}

/** One pod with the claim of the same name. What the store is to be it reads from its environment, which its command may name as `$(ZDB_MODE)`. */
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

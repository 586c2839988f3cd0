import type { V1Deployment, V1PersistentVolumeClaim, V1Pod, V1Service } from "@kubernetes/client-node";
import { throwFault } from "@muster/faults";
import type { LeaseData } from "@muster/leases/data";
import { describeCrashes, readExits } from "../domain/count-exits.ts";
import type { LeaseRecord } from "../domain/lease.ts";
import { addUnits, computeDiskUnits, MIB, NO_UNITS } from "../domain/claim.ts";
import { isOfUser, buildLeaseLabels, buildLeaseName, type ObjectPlace } from "./lease-names.ts";
import { KINDS } from "./object-kinds.ts";
import {
  buildPod,
  describeUnstartable,
  describeNodes,
  describePods,
  isBlocked,
  type LeaseNodes,
  type PodResources,
} from "./pods.ts";
import { getLeasePlace, requireData, makeWorkloadType } from "./workload-type.ts";
import type { RequestedLease, LeaseCluster, Observation, GetOriginalLease, Workload } from "./workload.ts";

export const CONTAINER = makeWorkloadType({
  type: "container",
  counter: "container",
  rank: 5,
  claimOf: ({ capacity, mounts, network }) => ({
    units: addUnits(
      { ...NO_UNITS, cru: BigInt(capacity.cpu), mru: BigInt(capacity.memory) * MIB },
      computeDiskUnits(capacity.disk_type, BigInt(capacity.disk_size) * MIB),
    ),
    network: undefined,
    needs: {
      networks: network === undefined ? [] : [network],
      volumes: mounts.map(({ volume_id }) => volume_id),
    },
  }),
  workload: ({ cluster, nameOf }) => cluster && containerWorkload(cluster, nameOf),
});

type ContainerOptions = {
  readonly place: ObjectPlace;
  /** Labels that select the pod and mark it as the lease's own. */
  readonly labels: Readonly<Record<string, string>>;
  readonly data: LeaseData<"container">;
  readonly nodes: LeaseNodes;
  /** Name of the claim of a volume lease. */
  readonly claimOf: (volume: string) => string;
};

/** Name of the only container in the pod. */
const CONTAINER_NAME = "main";

/** Builds the secret with the container's secret variables; undefined if it has none. */
export function buildContainerSecret({ place, data }: ContainerOptions) {
  return Object.keys(data.secret_env).length === 0 ? undefined : { metadata: place, stringData: data.secret_env };
}

/** The stable address of the container, wherever its pod runs. Without ports it only names the pod. */
export function buildContainerService({ place, labels, data }: ContainerOptions) {
  const { ports } = data;
  return {
    metadata: place,
    spec: {
      selector: labels,
      ...(ports.length === 0
        ? { clusterIP: "None" }
        : { ports: ports.map((port) => ({ name: `port-${port}`, port, targetPort: port, protocol: "TCP" })) }),
    },
  };
}

/** Keeps one pod of the container running. The old pod ends before a new one starts, because they share volumes. */
export function buildDeployment(options: ContainerOptions) {
  const { place, labels, data, nodes } = options;
  const claims = [...new Set(data.mounts.map(({ volume_id }) => volume_id))];
  return {
    metadata: place,
    spec: {
      replicas: 1,
      revisionHistoryLimit: 0,
      strategy: { type: "Recreate" },
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: buildPod({
          container: buildContainer(options, claims),
          resources: buildResources(data),
          nodes,
          volumes: claims.map((volume, at) => ({
            name: `volume-${at}`,
            persistentVolumeClaim: { claimName: options.claimOf(volume) },
          })),
        }),
      },
    },
  };
}

function buildContainer({ place, data }: ContainerOptions, claims: readonly string[]) {
  const { image, entrypoint, args, env, secret_env, ports, mounts } = data;
  const secret = place.name;
  return {
    name: CONTAINER_NAME,
    image,
    ...(entrypoint.length > 0 && { command: entrypoint.map(literal) }),
    ...(args.length > 0 && { args: args.map(literal) }),
    env: [
      ...Object.entries(env).map(([name, value]) => ({ name, value: literal(value) })),
      ...Object.keys(secret_env).map((key) => ({ name: key, valueFrom: { secretKeyRef: { name: secret, key } } })),
    ],
    ports: ports.map((containerPort) => ({ containerPort, protocol: "TCP" })),
    volumeMounts: mounts.map(({ volume_id, mountpoint }) => ({
      name: `volume-${claims.indexOf(volume_id)}`,
      mountPath: mountpoint,
    })),
  };
}

function buildResources({ capacity: { cpu, memory, disk_size } }: LeaseData<"container">): PodResources {
  return { cpu: String(cpu), memory: `${memory}Mi`, "ephemeral-storage": `${disk_size}Mi` };
}

/** Escapes `$`, because Kubernetes expands `$(NAME)`: the container runs exactly as ordered. */
function literal(text: string): string {
  return text.replaceAll("$", () => "$$");
}

const OBJECT_KINDS = [KINDS.deployment, KINDS.service, KINDS.secret];

/** A container in one pod that is kept running. The result has its address. */
function containerWorkload({ objects, namespace: own, nodes }: LeaseCluster, nameOf: GetOriginalLease): Workload {
  const requireVolumes = async (options: ContainerOptions, { order }: LeaseRecord, signal: AbortSignal) => {
    const { namespace } = options.place;
    for (const { volume_id } of options.data.mounts) {
      const at = { name: options.claimOf(volume_id), namespace };
      const claim = await objects.find<V1PersistentVolumeClaim>(KINDS.volumeClaim, at, signal);
      const isThere = claim !== undefined && claim.metadata?.deletionTimestamp === undefined;
      // The volume's lease was checked before; this checks the claim that would be mounted.
      if (!isThere || !isOfUser(claim.metadata?.labels, nameOf(volume_id), order.user))
        throwFault({ code: "not_found", kind: "volume of this user", id: volume_id });
    }
  };
  const untilAvailable = (options: ContainerOptions, lease: RequestedLease, signal: AbortSignal): Promise<undefined> =>
    objects.untilReady(async (): Promise<Observation<undefined>> => {
      const deployment = await objects.find<V1Deployment>(KINDS.deployment, options.place, signal);
      if ((deployment?.status?.availableReplicas ?? 0) > 0) return { kind: "ready", value: undefined };
      const pods = await objects.list<V1Pod>(lease, KINDS.pod, options.place.namespace, signal);
      const crashes = describeCrashes(pods.map(readExits));
      if (crashes !== undefined) throwFault({ code: "invalid_request", field: "container", reason: crashes });
      const hopeless = describeUnstartable(pods);
      if (hopeless !== undefined) throwFault({ code: "invalid_request", ...hopeless });
      const because = `the start of the container (${describePods(pods, describeNodes(nodes))})`;
      if (isBlocked(pods)) await lease.onWait?.(because);
      return { kind: "pending", because };
    }, signal);

  return {
    type: CONTAINER.type,
    provision: async (lease, signal) => {
      const data = requireData(CONTAINER, lease);
      const options = {
        place: getLeasePlace(CONTAINER, lease, own),
        labels: buildLeaseLabels(lease),
        data,
        nodes,
        claimOf: (volume: string) => buildLeaseName(nameOf(volume)),
      };
      await requireVolumes(options, lease, signal);
      const secret = buildContainerSecret(options);
      if (secret !== undefined) await objects.ensure(lease, KINDS.secret, secret, signal);
      const service = await objects.ensure<V1Service>(lease, KINDS.service, buildContainerService(options), signal);
      await objects.ensure(lease, KINDS.deployment, buildDeployment(options), signal);
      await untilAvailable(options, lease, signal);
      return JSON.stringify(buildAddress(service, options));
    },
    decommission: (lease, signal) =>
      objects.remove(lease, { kinds: OBJECT_KINDS, namespace: getLeasePlace(CONTAINER, lease, own).namespace }, signal),
  };
}

function buildAddress({ spec }: V1Service, { place, data }: ContainerOptions) {
  const addresses = (spec?.clusterIPs ?? []).filter((address) => address !== "None");
  return {
    namespace: place.namespace,
    host: `${place.name}.${place.namespace}.svc`,
    addresses,
    ports: data.ports,
  };
}

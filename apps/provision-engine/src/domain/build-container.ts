import { buildPod, type PodResources } from "./build-pod.ts";
import type { Place } from "./build-volume.ts";
import type { LeaseNodes } from "./lease-nodes.ts";
import type { LeaseData } from "@muster/leases/data";

export type ContainerOptions = {
  readonly place: Place;
  /** By which the pod is found, and known to be the lease's. */
  readonly labels: Readonly<Record<string, string>>;
  readonly data: LeaseData<"container">;
  readonly nodes: LeaseNodes;
  /** Name of the claim of a volume's lease. */
  readonly claimOf: (volume: string) => string;
};

/** Of the one container in the pod. */
const CONTAINER_NAME = "main";

/** What the container is to know and nobody is to see; undefined: there is nothing. */
export function buildContainerSecret({ place, data }: ContainerOptions) {
  return Object.keys(data.secret_env).length === 0 ? undefined : { metadata: place, stringData: data.secret_env };
}

/** The address under which the container is reached as long as it lives, wherever its pod is. Without ports it is only a name for the pod. */
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

/** Keeps one pod of the container alive. The old one ends before a new one begins: they would share their volumes. */
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
          resources: resourcesOf(data),
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

function resourcesOf({ capacity: { cpu, memory, disk_size } }: LeaseData<"container">): PodResources {
  return { cpu: String(cpu), memory: `${memory}Mi`, "ephemeral-storage": `${disk_size}Mi` };
}

/** Kubernetes replaces `$(NAME)`, and takes `$$` for `$`: what was ordered runs as it was ordered. */
function literal(text: string): string {
  return text.replaceAll("$", () => "$$");
}

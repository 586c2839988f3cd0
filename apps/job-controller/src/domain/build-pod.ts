import { EXCLUSIVE, buildGrantedAffinity, toObjects, SHARED, type PlainObject } from "@muster/resources";
import type { Container, Member, PodTemplate, ReplicaSpec } from "./job.ts";
import type { ClusterDescription, EnvVariable } from "./kind.ts";
import { buildMemberName } from "./member-names.ts";
import { buildComponentLabel, type JobToBuild, type MemberPolicy, buildOwnerLabels } from "./member-metadata.ts";
import { buildOwnerReference } from "./ownership.ts";

type PodToBuild = JobToBuild & {
  readonly member: Member;
  /** The granted machine. */
  readonly node: string;
  /** True if only a part of the machine is granted. */
  readonly isShared?: boolean | undefined;
  /** The attempt of the gang that the pod belongs to. */
  readonly attempt: number;
  /** The group mark for the job's scheduler; undefined if the scheduler has no groups. */
  readonly mark?: GroupMark | undefined;
  /** Empty if the job is not traced. */
  readonly traceparent: string;
};

/** Labels and annotations of each pod of a group. */
export type GroupMark = {
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
};

/** A pod as sent to the API server. `spec` contains all other fields of the template. */
export type PodManifest = {
  readonly apiVersion: "v1";
  readonly kind: "Pod";
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations: Readonly<Record<string, string>>;
    readonly ownerReferences: readonly ReturnType<typeof buildOwnerReference>[];
  };
  readonly spec: Readonly<Record<string, unknown>> & { readonly containers: readonly Container[] };
};

/**
 * Builds the pod of one member: its template on exactly the granted machine, with a description of itself and its gang. The pod excludes other pods of Muster
 * from the machine, unless its grant is a part of it. The template's settings stay, except conflicting ones: labels, machine, restart policy, and the host name
 * if members find each other by it.
 */
export function buildPod(request: PodToBuild, policy: MemberPolicy): PodManifest {
  const { kind, job, spec, member, isShared = false, attempt, mark, traceparent } = request;
  const replica = spec.replicas.find(({ type }) => type === member.type);
  if (replica === undefined) throw new Error(`a job without ${member.type} has no pod of it`);
  const { template } = replica;
  const { labels, annotations } = policy.keys;
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: buildMemberName(job, member),
      namespace: job.namespace,
      labels: {
        ...template.metadata?.labels,
        ...mark?.labels,
        ...kind.labels(job, member, spec),
        ...buildOwnerLabels(request, policy.keys),
        [policy.keys.labels.installation]: policy.installation,
        ...buildComponentLabel(member, policy.keys),
        [labels.attempt]: String(attempt),
        [labels.exclusive]: isShared ? SHARED : EXCLUSIVE,
      },
      annotations: {
        ...withoutAnnouncement(template.metadata?.annotations ?? {}, annotations.preemptedAt),
        ...mark?.annotations,
        [annotations.mainContainer]: replica.mainContainer,
        ...(traceparent === "" ? {} : { [annotations.traceparent]: traceparent }),
      },
      ownerReferences: [buildOwnerReference(kind, job)],
    },
    spec: buildSpec(request, replica, policy),
  };
}

/** Removes the announcement of a preemption: a pod that was created with it would be deleted immediately and recreated endlessly. */
function withoutAnnouncement(
  written: Readonly<Record<string, string>>,
  preemptedAt: string,
): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(written).filter(([key]) => key !== preemptedAt));
}

function buildSpec(request: PodToBuild, replica: ReplicaSpec, policy: MemberPolicy): PodManifest["spec"] {
  const { kind, job, spec, member, node, isShared = false, traceparent } = request;
  const description = kind.describeCluster(job, member, spec, policy.defaults);
  const written = replica.template.spec;
  const initContainers = listInitContainers(description.initContainers, replica.template);
  const volumes = withoutDuplicates([...toObjects(written["volumes"]), ...description.volumes]);
  const gates = [...toObjects(written["schedulingGates"]), ...policy.schedulingGates.map((name) => ({ name }))];
  return {
    ...description.podDefaults,
    ...written,
    ...(spec.group !== undefined && { schedulerName: spec.group.scheduler }),
    restartPolicy: replica.restartPolicy === "ExitCode" ? "Never" : replica.restartPolicy,
    ...(kind.services === "one-a-job" && { hostname: buildMemberName(job, member), subdomain: job.name }),
    nodeSelector: {
      ...written.nodeSelector,
      // With several pools, the affinity to the granted node suffices.
      ...(replica.otherPools === undefined && { [policy.defaults.poolLabel]: replica.pool }),
    },
    affinity: buildGrantedAffinity(written["affinity"], { node, exclusiveKey: policy.keys.labels.exclusive, isShared }),
    ...(gates.length > 0 && { schedulingGates: gates }),
    ...(volumes.length > 0 && { volumes }),
    ...(initContainers.length > 0 && { initContainers }),
    containers: written.containers.map((container) => buildContainer(container, replica, description, traceparent)),
  };
}

function buildContainer(
  container: Container,
  replica: ReplicaSpec,
  description: ClusterDescription,
  traceparent: string,
): Container {
  const isMain = container.name === replica.mainContainer;
  const isDescribed = description.containers?.includes(container.name) ?? true;
  const env = [
    ...(traceparent === "" ? [] : [{ name: "TRACEPARENT", value: traceparent }]),
    ...(isDescribed ? description.env : []),
  ];
  const mounts = [...toObjects(container["volumeMounts"]), ...(isDescribed ? description.volumeMounts : [])];
  const hasNoCommand = container["command"] === undefined && container["args"] === undefined;
  const [program, ...args] = (isMain && hasNoCommand && description.commandDefault) || [];
  const ports = isMain ? withPort(container.ports ?? [], replica.port) : (container.ports ?? []);
  return {
    ...container,
    ...(program !== undefined && { command: [program], args }),
    ...(mounts.length > 0 && { volumeMounts: mounts }),
    ...(ports.length > 0 && { ports }),
    env: mergeEnv(env, container.env ?? []),
  };
}

/** Merges variables. The template's own variables take precedence, and may refer to ours because they come later. */
function mergeEnv(ours: readonly EnvVariable[], own: NonNullable<Container["env"]>): NonNullable<Container["env"]> {
  const names = new Set(own.map(({ name }) => name));
  const added = ours.filter(({ name }) => !names.has(name)).map(({ name, value }) => ({ name, value: literal(value) }));
  return [...added, ...own];
}

/** Doubles each `$` before `$` and `(`, because Kubernetes expands `$(NAME)` and `$$` in values. */
function literal(text: string): string {
  return text.replaceAll(/\$(?=[$(])/g, "$$$$");
}

function withPort(ports: NonNullable<Container["ports"]>, port: ReplicaSpec["port"]): NonNullable<Container["ports"]> {
  if (port === undefined) return ports;
  const known = ports.some(({ name, containerPort }) => name === port.name || containerPort === port.number);
  return known ? ports : [...ports, { name: port.name, containerPort: port.number, protocol: "TCP" }];
}

/** Returns the init containers of a pod: those of its kind, then those of the template. */
export function listInitContainers(added: readonly Container[], { spec }: PodTemplate): readonly Container[] {
  return withoutDuplicates([...added, ...(spec.initContainers ?? [])]);
}

/** Keeps the later one of two items with the same name. */
function withoutDuplicates<Named extends PlainObject>(items: readonly Named[]): readonly Named[] {
  return items.filter(({ name }, index) => !items.slice(index + 1).some((later) => later["name"] === name));
}

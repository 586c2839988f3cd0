import type { Container, Member, ReplicaSpec } from "./job.ts";
import type { ClusterDescription, EnvVariable } from "./kind.ts";
import { memberName } from "./member-names.ts";
import { componentLabel, type JobToBuild, type MemberPolicy, ownerLabels } from "./member-metadata.ts";
import { ownerReference } from "./ownership.ts";
import { isObject } from "./read-fields.ts";

export type PodToBuild = JobToBuild & {
  readonly member: Member;
  /** The machine that was granted to it. */
  readonly node: string;
  /** Which making of the whole gang it belongs to. */
  readonly attempt: number;
  /** How the job's scheduler knows its pods; undefined: it does not. */
  readonly mark?: GroupMark | undefined;
  /** Empty: the job is not traced. */
  readonly traceparent: string;
};

/** Of each pod of a group. */
export type GroupMark = {
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
};

/** A pod as it is sent to the API server. Whatever its template says beyond these fields is in `spec`. */
export type PodManifest = {
  readonly apiVersion: "v1";
  readonly kind: "Pod";
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations: Readonly<Record<string, string>>;
    readonly ownerReferences: readonly ReturnType<typeof ownerReference>[];
  };
  readonly spec: Readonly<Record<string, unknown>> & { readonly containers: readonly Container[] };
};

const HOSTNAME = "kubernetes.io/hostname";

/**
 * The pod of one member: its template, alone on exactly the machine that was granted, told who it is and where the others are. What a template says about the same
 * things is kept where both can be true, and gives way where they cannot: labels, machine, restart policy, and the host name where the gang is found by it.
 */
export function buildPod(request: PodToBuild, policy: MemberPolicy): PodManifest {
  const { kind, job, spec, member, attempt, mark, traceparent } = request;
  const replica = spec.replicas.find(({ type }) => type === member.type);
  if (replica === undefined) throw new Error(`a job without ${member.type} has no pod of it`);
  const { template } = replica;
  const { labels, annotations } = policy.keys;
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: memberName(job, member),
      namespace: job.namespace,
      labels: {
        ...template.metadata?.labels,
        ...mark?.labels,
        ...kind.labels(job, member, spec),
        ...ownerLabels(request, policy.keys),
        [policy.keys.labels.installation]: policy.installation,
        ...componentLabel(member, policy.keys),
        [labels.attempt]: String(attempt),
        [labels.exclusive]: "true",
      },
      annotations: {
        ...template.metadata?.annotations,
        ...mark?.annotations,
        [annotations.mainContainer]: replica.mainContainer,
        ...(traceparent === "" ? {} : { [annotations.traceparent]: traceparent }),
      },
      ownerReferences: [ownerReference(kind, job)],
    },
    spec: buildSpec(request, replica, policy),
  };
}

function buildSpec(request: PodToBuild, replica: ReplicaSpec, policy: MemberPolicy): PodManifest["spec"] {
  const { kind, job, spec, member, node, traceparent } = request;
  const told = kind.describeCluster(job, member, spec, policy.defaults);
  const written = replica.template.spec;
  const initContainers = withoutTwins([...told.initContainers, ...(written.initContainers ?? [])]);
  const volumes = withoutTwins([...listOf(written["volumes"]), ...told.volumes]);
  const gates = [...listOf(written["schedulingGates"]), ...policy.schedulingGates.map((name) => ({ name }))];
  return {
    ...told.podDefaults,
    ...written,
    ...(spec.group !== undefined && { schedulerName: spec.group.scheduler }),
    restartPolicy: replica.restartPolicy === "ExitCode" ? "Never" : replica.restartPolicy,
    ...(kind.services === "one-a-job" && { hostname: memberName(job, member), subdomain: job.name }),
    nodeSelector: { ...written.nodeSelector, [policy.defaults.poolLabel]: replica.pool },
    affinity: buildAffinity(written["affinity"], node, policy.keys.labels.exclusive),
    ...(gates.length > 0 && { schedulingGates: gates }),
    ...(volumes.length > 0 && { volumes }),
    ...(initContainers.length > 0 && { initContainers }),
    containers: written.containers.map((container) => buildContainer(container, replica, told, traceparent)),
  };
}

function buildContainer(
  container: Container,
  replica: ReplicaSpec,
  told: ClusterDescription,
  traceparent: string,
): Container {
  const isMain = container.name === replica.mainContainer;
  const isTold = told.containers?.includes(container.name) ?? true;
  const env = [
    ...(traceparent === "" ? [] : [{ name: "TRACEPARENT", value: traceparent }]),
    ...(isTold ? told.env : []),
  ];
  const mounts = [...listOf(container["volumeMounts"]), ...(isTold ? told.volumeMounts : [])];
  const silent = container["command"] === undefined && container["args"] === undefined;
  const [program, ...args] = (isMain && silent && told.commandDefault) || [];
  const ports = isMain ? withPort(container.ports ?? [], replica.port) : (container.ports ?? []);
  return {
    ...container,
    ...(program !== undefined && { command: [program], args }),
    ...(mounts.length > 0 && { volumeMounts: mounts }),
    ...(ports.length > 0 && { ports }),
    env: mergeEnv(env, container.env ?? []),
  };
}

/** The template's own variables win, and may refer to ours because they come later. */
function mergeEnv(ours: readonly EnvVariable[], own: NonNullable<Container["env"]>): NonNullable<Container["env"]> {
  const names = new Set(own.map(({ name }) => name));
  const told = ours.filter(({ name }) => !names.has(name)).map(({ name, value }) => ({ name, value: literal(value) }));
  return [...told, ...own];
}

/** Kubernetes replaces `$(NAME)` and `$$` in values; doubled, they arrive as they were meant. */
function literal(text: string): string {
  return text.replaceAll(/\$(?=[$(])/g, "$$$$");
}

function withPort(ports: NonNullable<Container["ports"]>, port: ReplicaSpec["port"]): NonNullable<Container["ports"]> {
  if (port === undefined) return ports;
  const known = ports.some(({ name, containerPort }) => name === port.name || containerPort === port.number);
  return known ? ports : [...ports, { name: port.name, containerPort: port.number, protocol: "TCP" }];
}

/** The granted machine by the node's own name, because its hostname label may say something else, and no other pod of Muster beside it. */
function buildAffinity(written: unknown, node: string, exclusive: string): unknown {
  const affinity = isObject(written) ? written : {};
  const nodes = isObject(affinity["nodeAffinity"]) ? affinity["nodeAffinity"] : {};
  const apart = isObject(affinity["podAntiAffinity"]) ? affinity["podAntiAffinity"] : {};
  const required = "requiredDuringSchedulingIgnoredDuringExecution";
  const demanded = isObject(nodes[required]) ? listOf(nodes[required]["nodeSelectorTerms"]) : [];
  // One term that holds is enough for the scheduler, so each of them has to name the machine.
  const terms = (demanded.length > 0 ? demanded : [{}]).map((term) => ({
    ...term,
    matchFields: [...listOf(term["matchFields"]), { key: "metadata.name", operator: "In", values: [node] }],
  }));
  const alone = {
    topologyKey: HOSTNAME,
    labelSelector: { matchExpressions: [{ key: exclusive, operator: "Exists" }] },
    // Empty selects every namespace; without it only pods of this one would be kept apart.
    namespaceSelector: {},
  };
  return {
    ...affinity,
    nodeAffinity: { ...nodes, [required]: { nodeSelectorTerms: terms } },
    podAntiAffinity: { ...apart, [required]: [...listOf(apart[required]), alone] },
  };
}

type Item = Readonly<Record<string, unknown>>;

function listOf(value: unknown): readonly Item[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

/** What is named twice is taken from the later one. */
function withoutTwins<Named extends Item>(items: readonly Named[]): readonly Named[] {
  return items.filter(({ name }, index) => !items.slice(index + 1).some((later) => later["name"] === name));
}

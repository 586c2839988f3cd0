import type { JobSpec, ReplicaSpec, RestartPolicy, SuccessRule } from "./job.ts";
import type { EnvVariable, JobIdentity, Kind, KindDefaults, ReadResult } from "./kind.ts";
import { choosePool, POOL_ANNOTATION } from "./choose-pool.ts";
import { buildMemberLabels } from "./member-labels.ts";
import { checkNameLength, checkServiceName, buildMemberName, MAX_MEMBERS, buildServiceHost } from "./member-names.ts";
import { orderReplicas } from "./order-replicas.ts";
import { readGroup } from "./read-group.ts";
import type { Fields } from "./read-fields.ts";
import { isComplete, type ParsedManifest, readManifest, type ReplicaDraft } from "./read-manifest.ts";
import { CLEAN_POD_POLICIES, MANAGER_NAME, readRunPolicy } from "./read-run-policy.ts";
import { withNodeSelections } from "./read-node-selection.ts";
import { readIsShared, readJobSharing, withRequests } from "./read-sharing.ts";
import { findContainer, COUNT, readTemplate } from "./read-template.ts";
import { MAX_VARIABLE_BYTES, countVariableBytes } from "./variable-size.ts";

const GROUP = "kubeflow.org";
/** The keys of the training operator; the value for the group differs by kind. */
export const KUBEFLOW_LABEL_KEYS = {
  groupNameLabelKey: "training.kubeflow.org/operator-name",
  jobNameLabelKey: "training.kubeflow.org/job-name",
  replicaTypeLabelKey: "training.kubeflow.org/replica-type",
  replicaIndexLabelKey: "training.kubeflow.org/replica-index",
  jobRoleLabelKey: "training.kubeflow.org/job-role",
};
const RESTART_POLICIES: readonly RestartPolicy[] = ["Always", "OnFailure", "Never", "ExitCode"];
/** Valid values of managedBy. If a job names the training operator, the operator runs the job; a job without a value is ours. */
const MANAGERS = ["kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue", MANAGER_NAME];

type ReplicaType = {
  /** The name as manifests and statuses spell it; our own names are in lower case. */
  readonly name: string;
  readonly replicasDefault: number;
  /** A type with at most one pod. */
  readonly single: boolean;
};

/** The differences between Kubeflow's kinds. */
type Framework = {
  readonly kind: string;
  readonly plural: string;
  readonly replicaSpecs: string;
  readonly types: readonly ReplicaType[];
  readonly restartPolicyDefault: RestartPolicy;
  /** The container of the framework. `required` means that it must exist; otherwise the first container replaces it. */
  readonly container: { readonly name: string; readonly required: boolean };
  /** Added to that container unless it has a port of this name; undefined if pods of the kind need no services. */
  readonly port: { readonly name: string; readonly number: number } | undefined;
  /** Reads the fields that only this kind has, and completes its replica types. */
  readonly finish: (spec: Fields, drafts: readonly ReplicaDraft[]) => Finish;
  readonly describeCluster: Kind["describeCluster"];
  readonly companions: Kind["companions"];
};

type Finish = {
  readonly drafts: readonly ReplicaDraft[];
  readonly success: readonly SuccessRule[];
  readonly settings: Readonly<Record<string, string>>;
};

/** Builds a kind of Kubeflow from the common parts: layout, run policy, labels, names, and one headless service per pod. */
export function makeKubeflowKind(framework: Framework): Kind {
  const labelKeys = {
    ...KUBEFLOW_LABEL_KEYS,
    groupNameLabelValue: `${framework.kind.toLowerCase()}-controller`,
  };
  return {
    group: GROUP,
    version: "v1",
    kind: framework.kind,
    plural: framework.plural,
    labelKeys,
    statusKey: (type) => framework.types.find(({ name }) => name.toLowerCase() === type)?.name ?? type,
    services: "one-a-pod",
    labels: (job, member, spec) => buildMemberLabels(labelKeys, job, member, spec),
    read: (resource, defaults) => read(framework, resource, defaults),
    describeCluster: framework.describeCluster,
    companions: framework.companions,
  };
}

/** Returns `<pod>.<namespace>.svc:<port>` of each pod of a type. */
export function listAddresses(
  job: Parameters<Kind["describeCluster"]>[0],
  { type, replicas, port }: ReplicaSpec,
  { clusterDomain }: KindDefaults,
): readonly string[] {
  return Array.from({ length: replicas }, (_, index) => {
    const host = buildServiceHost(buildMemberName(job, { type, index }), job.namespace, clusterDomain);
    return `${host}:${port?.number ?? 0}`;
  });
}

export function findReplica(spec: JobSpec, type: string): ReplicaSpec | undefined {
  return spec.replicas.find((replica) => replica.type === type);
}

export function listMembers(spec: JobSpec): number {
  return spec.replicas.reduce((sum, { replicas }) => sum + replicas, 0);
}

/** All pods of the deciding type must succeed; without such a type, `otherwise` applies. */
export function buildHeadSuccessRules(
  drafts: readonly ReplicaDraft[],
  heads: readonly string[],
  otherwise: readonly SuccessRule[],
): readonly SuccessRule[] {
  const head = drafts.find(({ type, replicas }) => heads.includes(type) && replicas > 0);
  return head === undefined ? otherwise : [[{ type: head.type, indexes: "all" }]];
}

/** The rule for a type that may be absent: without it, every type must succeed. */
export function buildSuccessRules(
  drafts: readonly ReplicaDraft[],
  type: string,
  indexes: SuccessRule[number]["indexes"],
): readonly SuccessRule[] {
  const found = drafts.some((draft) => draft.type === type && draft.replicas > 0);
  return found ? [[{ type, indexes }]] : [drafts.map((draft) => ({ type: draft.type, indexes: "all" }))];
}

function read(framework: Framework, resource: unknown, defaults: KindDefaults): ReadResult {
  return readManifest(resource, (manifest) => readSpec(framework, manifest, defaults));
}

function readSpec(framework: Framework, manifest: ParsedManifest, defaults: KindDefaults): JobSpec {
  const { spec, metadata } = manifest;
  const { drafts, shared } = readReplicas(framework, manifest, defaults);
  const { drafts: finished, success, settings } = framework.finish(spec, drafts);
  const policy = spec.object("runPolicy");
  // Earlier versions have the field in the spec itself. The default removes running pods, unlike the training operator's: a parameter server never ends, and
  // would keep its machine.
  const cleanPodPolicy = spec.oneOf("cleanPodPolicy", CLEAN_POD_POLICIES) ?? "Running";
  const runPolicy = readRunPolicy(policy, { backoffLimit: undefined, cleanPodPolicy });
  if (runPolicy.managedBy !== undefined && !MANAGERS.includes(runPolicy.managedBy))
    policy?.refuse("managedBy", `must be one of ${MANAGERS.join(", ")}, not "${runPolicy.managedBy}"`);
  checkNames(metadata, finished);
  const job: JobSpec = {
    ...runPolicy,
    group: readGroup(spec, finished, defaults),
    replicas: orderReplicas(finished).ordered.filter(isComplete),
    failurePolicy: [],
    exitCodes: { retryable: [], permanent: [] },
    success,
    settings,
  };
  if (manifest.notes.problems.length > 0) return job;
  checkVariables(framework, manifest, job, defaults);
  const identity = readIdentity(manifest);
  const describe = (type: string) => framework.describeCluster(identity, { type, index: 0 }, job, defaults);
  return withRequests(withNodeSelections(job, defaults.poolLabel), shared, (type) => describe(type).initContainers);
}

/** The identity has no uid, which the API server sets and no description contains. */
function readIdentity({ metadata }: ParsedManifest): JobIdentity {
  return { name: metadata?.text("name") ?? "", namespace: metadata?.text("namespace") ?? "", uid: "" };
}

/** Refuses variables that are too long: a process with a longer variable does not start, and members of these kinds find each other by the variable. */
function checkVariables(framework: Framework, manifest: ParsedManifest, spec: JobSpec, defaults: KindDefaults): void {
  const job = readIdentity(manifest);
  const variables = spec.replicas
    .filter(({ replicas }) => replicas > 0)
    .flatMap(({ type, replicas }) => framework.describeCluster(job, { type, index: replicas - 1 }, spec, defaults).env);
  const longest = variables.reduce<EnvVariable | undefined>(
    (most, each) => (most === undefined || countVariableBytes(each) > countVariableBytes(most) ? each : most),
    undefined,
  );
  if (longest === undefined || countVariableBytes(longest) <= MAX_VARIABLE_BYTES) return;
  const reason = `the job has ${listMembers(spec)} replicas, and with names as long as theirs ${longest.name} has ${countVariableBytes(longest)} bytes; a process starts with ${MAX_VARIABLE_BYTES} at most`;
  manifest.metadata?.refuse("", reason);
}

/** Reads all replica types, and the names of those whose members get parts of machines. */
function readReplicas(
  framework: Framework,
  { spec, metadata, notes }: ParsedManifest,
  defaults: KindDefaults,
): { readonly drafts: readonly ReplicaDraft[]; readonly shared: ReadonlySet<string> } {
  const annotation = metadata?.object("annotations")?.text(POOL_ANNOTATION);
  const specs = spec.object(framework.replicaSpecs);
  if ((specs?.names ?? []).length === 0) spec.refuse(framework.replicaSpecs, "needs at least one replica type");
  const known = framework.types.map(({ name }) => name).join(", ");
  const sharing = readJobSharing(metadata);
  const seen = new Set<string>();
  const shared = new Set<string>();
  const drafts = (specs?.names ?? []).flatMap((written) => {
    const type = framework.types.find(({ name }) => name.toLowerCase() === written.toLowerCase());
    if (type === undefined) {
      specs?.refuse(written, `is no replica type of a ${framework.kind}, which has ${known}`);
      return [];
    }
    if (seen.has(type.name)) specs?.refuse(written, `repeats ${type.name}`);
    seen.add(type.name);
    const fields = specs?.object(written);
    if (fields === undefined) return [];
    if (readIsShared(fields, sharing)) shared.add(type.name.toLowerCase());
    const template = readTemplate(fields, notes);
    const sources = { path: fields.path, field: { known: false, pool: undefined }, template, annotation };
    return [readReplica(framework, type, fields, { template, ...choosePool(sources, defaults, notes) })];
  });
  return { drafts, shared };
}

function readReplica(
  { container, port, restartPolicyDefault }: Framework,
  type: ReplicaType,
  fields: Fields,
  chosen: Pick<ReplicaDraft, "template" | "pool" | "otherPools">,
): ReplicaDraft {
  const { template } = chosen;
  const replicas = fields.integer("replicas", COUNT) ?? type.replicasDefault;
  if (type.single && replicas > 1) fields.refuse("replicas", `must be 1: there is one ${type.name} at most`);
  const named = template === undefined ? undefined : findContainer(template, container.name);
  if (container.required && template !== undefined && named === undefined)
    fields.refuse("template.spec.containers", `needs a container named "${container.name}"`);
  const main = named ?? template?.spec.containers[0];
  const number = main?.ports?.find(({ name }) => name === port?.name)?.containerPort ?? port?.number;
  return {
    ...chosen,
    type: type.name.toLowerCase(),
    replicas,
    restartPolicy: fields.oneOf("restartPolicy", RESTART_POLICIES) ?? restartPolicyDefault,
    dependsOn: [],
    elastic: undefined,
    failuresIgnored: false,
    mainContainer: main?.name ?? container.name,
    port: port === undefined || number === undefined ? undefined : { name: port.name, number },
  };
}

function checkNames(metadata: Fields | undefined, drafts: readonly ReplicaDraft[]): void {
  const members = drafts.reduce((sum, { replicas }) => sum + replicas, 0);
  if (drafts.length > 0 && members === 0) metadata?.refuse("", "the job needs at least one replica");
  if (members > MAX_MEMBERS) metadata?.refuse("", `the job has ${members} replicas; ${MAX_MEMBERS} at most`);
  const name = metadata?.text("name") ?? "";
  const largest = ({ replicas, elastic }: ReplicaDraft): number => Math.max(replicas, elastic?.maxReplicas ?? 0);
  const problems = [
    checkServiceName(name),
    ...drafts.map((draft) => checkNameLength(name, draft.type, largest(draft))),
  ];
  const problem = problems.find((each) => each !== undefined);
  if (problem !== undefined) metadata?.refuse("name", problem);
}

import { API_GROUP } from "@muster/names";
import type { JobSpec, ReplicaSpec, RestartPolicy } from "./job.ts";
import { type EnvVariable, type Kind, type KindDefaults, NO_DESCRIPTION, type ReadResult } from "./kind.ts";
import { choosePool, POOL_ANNOTATION } from "./choose-pool.ts";
import { buildMemberLabels } from "./member-labels.ts";
import { checkNameLength, checkServiceName, buildMemberName, MAX_MEMBERS, buildServiceHost } from "./member-names.ts";
import { MAX_VARIABLE_BYTES, countVariableBytes } from "./variable-size.ts";
import { orderReplicas } from "./order-replicas.ts";
import { readGroup } from "./read-group.ts";
import type { Fields, ReadNotes } from "./read-fields.ts";
import { isComplete, readManifest, type ReplicaDraft } from "./read-manifest.ts";
import { readExitCodes, readFailurePolicy, readSuccessPolicy } from "./read-policies.ts";
import { readRunPolicy } from "./read-run-policy.ts";
import { withNodeSelections } from "./read-node-selection.ts";
import { readIsShared, readJobSharing, withRequests } from "./read-sharing.ts";
import { findContainer, COUNT, PORT, readTemplate } from "./read-template.ts";

const RESTART_POLICIES: readonly RestartPolicy[] = ["Always", "OnFailure", "Never", "ExitCode"];
const PORT_NAME = "job-port";
/** As in Kubernetes' own Jobs, a job that always fails must end. */
const BACKOFF_LIMIT = 6;

const LABEL_KEYS = {
  groupNameLabelKey: `${API_GROUP}/group-name`,
  groupNameLabelValue: API_GROUP,
  jobNameLabelKey: `${API_GROUP}/job-name`,
  replicaTypeLabelKey: `${API_GROUP}/replica-type`,
  replicaIndexLabelKey: `${API_GROUP}/replica-index`,
  jobRoleLabelKey: `${API_GROUP}/job-role`,
};

/** Muster's own Job; deploy/crds/muster.dev_jobs.yaml defines it for the API server, and explains each field. */
export const JOB_KIND: Kind = {
  group: API_GROUP,
  version: "v1",
  kind: "Job",
  plural: "jobs",
  labelKeys: LABEL_KEYS,
  statusKey: (type) => type,
  services: "one-a-job",
  labels: (job, member, spec) => buildMemberLabels(LABEL_KEYS, job, member, spec),
  read,
  describeCluster: (job, member, spec, defaults) => ({
    ...NO_DESCRIPTION,
    env: [
      { name: "MUSTER_JOB", value: job.name },
      { name: "MUSTER_REPLICA_TYPE", value: member.type },
      { name: "MUSTER_REPLICA_INDEX", value: String(member.index) },
      ...gangVariables(job, member, spec, defaults),
    ],
  }),
  companions: () => [],
};

/** Describes the whole gang to each pod if the description fits into one variable, because a process with a longer variable does not start. */
function gangVariables(
  job: Parameters<Kind["describeCluster"]>[0],
  member: Parameters<Kind["describeCluster"]>[1],
  spec: JobSpec,
  { clusterDomain }: KindDefaults,
): readonly EnvVariable[] {
  const domain = buildServiceHost(job.name, job.namespace, clusterDomain);
  const cluster = spec.replicas.map(({ type, replicas, port }) => {
    const hosts = Array.from({ length: replicas }, (_, index) => {
      const host = `${buildMemberName(job, { type, index })}.${domain}`;
      return port === undefined ? host : `${host}:${port.number}`;
    });
    return [type, hosts] as const;
  });
  const own = spec.replicas.find(({ type }) => type === member.type);
  const replicas = { name: "MUSTER_REPLICAS", value: String(own?.replicas ?? 0) };
  const whole = { name: "MUSTER_CLUSTER", value: JSON.stringify(Object.fromEntries(cluster)) };
  return countVariableBytes(whole) > MAX_VARIABLE_BYTES ? [replicas] : [replicas, whole];
}

function read(resource: unknown, defaults: KindDefaults): ReadResult {
  return readManifest(resource, ({ spec, metadata, notes }) => {
    const job = readSpec(spec, metadata, defaults, notes);
    const [type] = job.replicas;
    const name = metadata?.text("name") ?? "";
    const identity = { name, namespace: metadata?.text("namespace") ?? "", uid: "" };
    if (notes.problems.length === 0 && type !== undefined) {
      const member = { type: type.type, index: 0 };
      if (!gangVariables(identity, member, job, defaults).some((variable) => variable.name === "MUSTER_CLUSTER")) {
        const reason = `are too many, with names as long as theirs, for the variable MUSTER_CLUSTER: it would be longer than ${MAX_VARIABLE_BYTES} bytes, and pods go without it`;
        spec.warn("replicaSpecs", reason);
      }
    }
    return job;
  });
}

function readSpec(spec: Fields, metadata: Fields | undefined, defaults: KindDefaults, notes: ReadNotes): JobSpec {
  const annotation = metadata?.object("annotations")?.text(POOL_ANNOTATION);
  const sharing = readJobSharing(metadata);
  const shared = new Set<string>();
  const types = spec.object("replicaSpecs");
  const drafts = (types?.names ?? []).flatMap((type) => {
    const fields = types?.object(type);
    if (fields === undefined) return [];
    if (readIsShared(fields, sharing)) shared.add(type);
    return [readReplica(fields, type, { annotation, defaults, notes })];
  });
  if ((types?.names ?? []).length === 0) spec.refuse("replicaSpecs", "needs at least one replica type");
  const { ordered, cycle } = orderReplicas(drafts);
  checkGang(drafts, cycle, { spec, metadata });
  const runPolicy = readRunPolicy(spec.object("runPolicy"), { backoffLimit: BACKOFF_LIMIT, cleanPodPolicy: "Running" });
  const members = drafts.reduce((sum, { replicas }) => sum + replicas, 0);
  if ((runPolicy.minAvailable ?? 0) > members)
    spec.refuse("runPolicy.schedulingPolicy.minAvailable", `is more than all ${members} replicas`);
  const job: JobSpec = {
    ...runPolicy,
    group: readGroup(spec, drafts, defaults),
    replicas: ordered.filter(isComplete),
    failurePolicy: readFailurePolicy(spec, drafts),
    exitCodes: readExitCodes(spec),
    success: readSuccessPolicy(spec, ordered),
  };
  return withRequests(withNodeSelections(job, defaults.poolLabel), shared, () => []);
}

function readReplica(
  fields: Fields,
  type: string,
  { annotation, defaults, notes }: { annotation: string | undefined; defaults: KindDefaults; notes: ReadNotes },
): ReplicaDraft {
  const typeProblem = checkServiceName(type);
  if (typeProblem !== undefined) fields.refuse("", typeProblem);
  const template = readTemplate(fields, notes);
  const mainContainer = fields.text("mainContainer") ?? template?.spec.containers[0]?.name ?? "";
  if (template !== undefined && findContainer(template, mainContainer) === undefined)
    fields.refuse("mainContainer", `"${mainContainer}" is no container of the template`);
  const port = fields.integer("port", PORT);
  return {
    type,
    replicas: fields.integer("replicas", COUNT) ?? 1,
    restartPolicy: fields.oneOf("restartPolicy", RESTART_POLICIES) ?? "Never",
    template,
    ...choosePool(
      { path: fields.path, field: { known: true, pool: fields.text("pool") || undefined }, template, annotation },
      defaults,
      notes,
    ),
    dependsOn: readDependencies(fields),
    elastic: readElastic(fields),
    failuresIgnored: false,
    mainContainer,
    port: port === undefined ? undefined : { name: PORT_NAME, number: port },
  };
}

function readDependencies(fields: Fields): ReplicaSpec["dependsOn"] {
  return fields.objects("dependsOn").flatMap((dependency) => {
    const type = dependency.text("type") ?? "";
    if (type === "") dependency.refuse("type", "is missing");
    return [{ type, status: dependency.oneOf("status", ["Ready", "Complete"]) ?? "Ready" }];
  });
}

function readElastic(fields: Fields): ReplicaSpec["elastic"] {
  const elastic = fields.object("elastic");
  if (elastic === undefined) return undefined;
  const replicas = fields.integer("replicas", COUNT) ?? 1;
  const minReplicas = elastic.integer("minReplicas", COUNT) ?? replicas;
  const maxReplicas = elastic.integer("maxReplicas", COUNT) ?? replicas;
  if (minReplicas > replicas || replicas > maxReplicas)
    elastic.refuse(
      "",
      `must have minReplicas <= replicas <= maxReplicas, not ${minReplicas}, ${replicas}, ${maxReplicas}`,
    );
  return { minReplicas, maxReplicas };
}

function checkGang(
  drafts: readonly ReplicaDraft[],
  cycle: readonly ReplicaDraft[],
  { spec, metadata }: { readonly spec: Fields; readonly metadata: Fields | undefined },
): void {
  const types = new Set(drafts.map(({ type }) => type));
  for (const { type, dependsOn } of drafts) {
    for (const needed of dependsOn) {
      const field = `replicaSpecs.${type}.dependsOn`;
      if (needed.type === type) spec.refuse(field, "names the type itself");
      else if (needed.type !== "" && !types.has(needed.type))
        spec.refuse(field, `"${needed.type}" is no replica type of this job`);
    }
  }
  const waiting = cycle.filter(({ type, dependsOn }) => dependsOn.every((d) => d.type !== type && types.has(d.type)));
  if (waiting.length > 0)
    spec.refuse("replicaSpecs", `${waiting.map(({ type }) => type).join(", ")} wait for each other and never start`);
  const members = drafts.reduce((sum, { replicas, elastic }) => sum + (elastic?.maxReplicas ?? replicas), 0);
  if (members === 0 && drafts.length > 0) spec.refuse("replicaSpecs", "needs at least one replica");
  if (members > MAX_MEMBERS) spec.refuse("replicaSpecs", `has ${members} replicas; ${MAX_MEMBERS} at most`);
  const name = metadata?.text("name") ?? "";
  const problems = [
    checkServiceName(name),
    ...drafts.map((draft) => checkNameLength(name, draft.type, largest(draft))),
  ];
  const problem = problems.find((each) => each !== undefined);
  if (problem !== undefined) metadata?.refuse("name", problem);
}

function largest({ replicas, elastic }: ReplicaDraft): number {
  return Math.max(replicas, elastic?.maxReplicas ?? 0);
}

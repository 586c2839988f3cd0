import { BATCH_JOB, JOB_SET, QUEUED_POD, type BatchKind } from "@muster/names";
import { NO_DEFAULTS, readNodeSelection, type PodDefaults } from "@muster/resources";
import { choosePool, POOL_ANNOTATION } from "../choose-pool.ts";
import { parseIndexes } from "../completed-indexes.ts";
import type { PodTemplate } from "../job.ts";
import type { KindDefaults } from "../kind.ts";
import { QUEUE_LABEL } from "@muster/ledger-client/choose-queue";
import { findGracePeriod } from "../read-preemptible.ts";
import { toFields, type Fields, type ReadNotes } from "../read-fields.ts";
import { readIsShared, readJobSharing, addReplicaRequests } from "../read-sharing.ts";
import { readTemplate } from "../read-template.ts";
import { readTopology } from "../read-topology.ts";
import { ONLY_SET, QUEUE_GATE, type BatchJob, type PodNeed, type PodSet } from "./batch-job.ts";
import { PROGRESS_ANNOTATION, readStartProgress } from "./start-progress.ts";

type Gates = readonly { readonly name: string }[];
type PodSpec = { readonly priorityClassName?: string; readonly schedulingGates?: Gates };
type Conditions = readonly { readonly type: string; readonly status: string }[];
export type JobSpec = {
  readonly suspend?: boolean;
  readonly parallelism?: number;
  readonly completions?: number;
  readonly template?: { readonly spec?: PodSpec };
};

type Metadata = {
  readonly name?: string;
  readonly namespace?: string;
  readonly uid?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly deletionTimestamp?: unknown;
  readonly ownerReferences?: readonly {
    readonly apiVersion: string;
    readonly kind: string;
    readonly name: string;
    readonly uid: string;
    readonly controller?: boolean;
  }[];
};

/** A batch Job of the API server, limited to the fields that the controller reads. */
export type BatchJobObject = {
  readonly metadata?: Metadata;
  readonly spec?: JobSpec;
  readonly status?: {
    readonly active?: number;
    readonly succeeded?: number;
    readonly failedIndexes?: string;
    readonly startTime?: unknown;
    readonly conditions?: Conditions;
  };
};

/** The fields of a JobSet that the controller reads. */
export type JobSetObject = {
  readonly metadata?: Metadata;
  readonly spec?: {
    readonly suspend?: boolean;
    readonly replicatedJobs?: readonly {
      readonly name?: string;
      readonly replicas?: number;
      readonly template?: { readonly spec?: JobSpec };
    }[];
  };
  readonly status?: { readonly restarts?: number; readonly conditions?: Conditions };
};

/** The fields of a queued pod that the controller reads. */
export type QueuedPodObject = {
  readonly metadata?: Metadata;
  readonly spec?: PodSpec;
  readonly status?: { readonly phase?: string };
};

type SetRow = {
  readonly name: string;
  readonly replicas: number;
  /** The number of pods of each replica, before any has succeeded. */
  readonly podsEach: number;
  readonly needWith: (defaults: PodDefaults) => PodSet["need"];
};

/** The JobSet that controls a Job, and the role of the Job in it. */
type Parent = {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  /** The name of the replicated job. */
  readonly set: string;
  /** The number of times that the JobSet had recreated its Jobs before it created this one. */
  readonly restarts: number;
};

/** Work of Kubernetes without its needs, which depend on the defaults of its namespace, and without the Jobs of a JobSet. */
export type BatchJobRow = Omit<BatchJob, "sets"> & {
  readonly sets: readonly SetRow[];
  /** The gates of a Job's template, including foreign ones, which are kept. */
  readonly gates: Gates;
  readonly priorityClasses: readonly string[];
  /** The number of times that a JobSet has recreated its Jobs. */
  readonly restarts: number;
  /** Undefined if no JobSet controls the Job. */
  readonly parent: Parent | undefined;
};

const FINISHED: ReadonlySet<string> = new Set(["Complete", "Failed", "Completed"]);
const SET_LABEL = "jobset.sigs.k8s.io/replicatedjob-name";
const RESTARTS_LABEL = "jobset.sigs.k8s.io/restart-attempt";

/** Reads a Job. Never throws: the row contains the problems of the template. */
export function readBatchJob(object: BatchJobObject, defaults: KindDefaults): BatchJobRow {
  const { metadata = {}, spec = {}, status = {} } = object;
  const parent = readParent(metadata);
  const gates = spec.template?.spec?.schedulingGates ?? [];
  const suspended = spec.suspend === true;
  const shapes = [{ name: ONLY_SET, replicas: 1, podsEach: countRemainingPods(spec, status) }];
  const isRead = readQueue(metadata) !== "" && parent === undefined;
  return {
    ...readIdentity(BATCH_JOB, metadata),
    ...readSets(object, { shapes, isRead, specOf: (root) => root.object("spec") }, defaults),
    finished: status.conditions?.some(isEnd) === true,
    suspended,
    stopped: suspended && isTrue(status, "Suspended") && (status.active ?? 0) === 0,
    started: status.startTime !== undefined,
    gated: gates.some(isQueueGate),
    gates,
    priorityClasses: [spec.template?.spec?.priorityClassName ?? ""],
    parent,
  };
}

/**
 * Reads a JobSet. The JobSet controller suspends the Jobs before it reports the condition. It also removes their start times, and copies the gates of the
 * JobSet's templates to the templates of the Jobs.
 */
export function readJobSet(object: JobSetObject, defaults: KindDefaults): BatchJobRow {
  const { metadata = {}, spec = {}, status = {} } = object;
  const jobs = spec.replicatedJobs ?? [];
  const templates = jobs.map(({ template }) => template?.spec?.template?.spec);
  const suspended = spec.suspend === true;
  const shapes = jobs.map(({ name = "", replicas = 1, template }) => {
    return { name, replicas, podsEach: countRemainingPods(template?.spec ?? {}, {}) };
  });
  const specOf = (root: Fields, index: number): Fields | undefined =>
    root.object("spec")?.objects("replicatedJobs")[index]?.object("template")?.object("spec");
  return {
    ...readIdentity(JOB_SET, metadata),
    ...readSets(object, { shapes, isRead: readQueue(metadata) !== "", specOf }, defaults),
    finished: status.conditions?.some(isEnd) === true,
    suspended,
    stopped: suspended && isTrue(status, "Suspended"),
    started: false,
    gated: templates.every((template) => template?.schedulingGates?.some(isQueueGate) === true),
    priorityClasses: templates.map((template) => template?.priorityClassName ?? ""),
    restarts: status.restarts ?? 0,
  };
}

/** Returns undefined if a Job controls the pod, or the pod is neither gated nor bound. The caller knows a bound pod by its owner labels. */
export function readQueuedPod(
  object: QueuedPodObject,
  defaults: KindDefaults,
  isBound: boolean,
): BatchJobRow | undefined {
  const { metadata = {}, spec = {}, status = {} } = object;
  const isOfJob = metadata.ownerReferences?.some((owner) => owner.controller === true && isJob(owner)) === true;
  const suspended = spec.schedulingGates?.some(isQueueGate) === true;
  if (isOfJob || (!suspended && !isBound)) return undefined;
  const shapes = [{ name: ONLY_SET, replicas: 1, podsEach: 1 }];
  const pod = { metadata, template: { metadata, spec } };
  return {
    ...readIdentity(QUEUED_POD, metadata),
    ...readSets(pod, { shapes, isRead: suspended, specOf: (root) => root }, defaults),
    finished: status.phase === "Succeeded" || status.phase === "Failed",
    suspended,
    stopped: false,
    started: false,
    gated: true,
    priorityClasses: [spec.priorityClassName ?? ""],
  };
}

/** Builds the current work. A completed Job of a JobSet needs no places, and a Job that does not exist yet needs all of its places. */
export function toBatchJob(row: BatchJobRow, jobs: readonly BatchJobRow[], defaults: PodDefaults): BatchJob {
  const current = jobs.filter(({ parent }) => (parent?.restarts ?? 0) >= row.restarts);
  const ofSet = Map.groupBy(current, ({ parent }) => parent?.set);
  let first = 0;
  const sets = row.sets.map(({ name, replicas, podsEach, needWith }): PodSet => {
    const created = ofSet.get(name) ?? [];
    const left = created.reduce((sum, { finished, sets: [set] }) => sum + (finished ? 0 : (set?.podsEach ?? 0)), 0);
    const pods = left + Math.max(0, replicas - created.length) * podsEach;
    const set = { name, first, pods, need: needWith(defaults) };
    first += replicas * podsEach;
    return set;
  });
  const stopped = row.stopped && jobs.every(({ suspended, finished }) => suspended || finished);
  return { ...row, stopped, sets };
}

function readIdentity(kind: BatchKind, metadata: Metadata) {
  return {
    kind,
    namespace: metadata.namespace ?? "",
    name: metadata.name ?? "",
    uid: metadata.uid ?? "",
    queue: readQueue(metadata),
    deleting: metadata.deletionTimestamp !== undefined,
    start: readStartProgress(metadata.annotations?.[PROGRESS_ANNOTATION]),
    gates: [],
    restarts: 0,
    parent: undefined,
  };
}

function readQueue({ labels }: Metadata): string {
  return labels?.[QUEUE_LABEL] ?? "";
}

function readParent({ namespace = "", labels = {}, ownerReferences = [] }: Metadata): Parent | undefined {
  const owner = ownerReferences.find(({ controller }) => controller === true);
  if (owner?.kind !== "JobSet" || !owner.apiVersion.startsWith("jobset.x-k8s.io/")) return undefined;
  const restarts = Number(labels[RESTARTS_LABEL] ?? 0);
  return { uid: owner.uid, namespace, name: owner.name, set: labels[SET_LABEL] ?? "", restarts };
}

/** Whether an owner is a Job of the API group `batch`. */
export function isJob({ kind, apiVersion }: { readonly kind: string; readonly apiVersion: string }): boolean {
  return kind === "Job" && apiVersion.startsWith("batch/");
}

function isTrue({ conditions }: { readonly conditions?: Conditions }, type: string): boolean {
  return conditions?.some((each) => each.type === type && each.status === "True") === true;
}

function isEnd({ type, status }: Conditions[number]): boolean {
  return FINISHED.has(type) && status === "True";
}

export function isQueueGate({ name }: { readonly name: string }): boolean {
  return name === QUEUE_GATE;
}

/** Counts the pods still to run. Without completions, Kubernetes creates no pod after the first success. */
function countRemainingPods(spec: JobSpec, status: NonNullable<BatchJobObject["status"]>): number {
  const { parallelism = 1, completions } = spec;
  const succeeded = status.succeeded ?? 0;
  if (completions === undefined) return succeeded > 0 ? Math.min(parallelism, status.active ?? 0) : parallelism;
  const failed = parseIndexes(status.failedIndexes ?? "", completions).length;
  return Math.max(0, Math.min(parallelism, completions - succeeded - failed));
}

type Reading = {
  readonly shapes: readonly Omit<SetRow, "needWith">[];
  /** False for work without a queue, whose template may have any content. */
  readonly isRead: boolean;
  /** Returns the object with the template of the set with this index. */
  readonly specOf: (root: Fields, index: number) => Fields | undefined;
};

function readSets(object: object, { shapes, isRead, specOf }: Reading, defaults: KindDefaults) {
  let topology: string | undefined;
  const replicas: Replica[] = [];
  const sets = shapes.map((shape, index): SetRow => {
    const notes: ReadNotes = { problems: [], warnings: [] };
    const root = isRead ? toFields(object, "", notes) : undefined;
    const metadata = root?.object("metadata");
    topology = readTopology(metadata);
    const spec = root === undefined ? undefined : specOf(root, index);
    const replica = spec === undefined ? undefined : readReplica(spec, metadata, defaults, notes);
    if (replica !== undefined) replicas.push(replica);
    return {
      ...shape,
      needWith: (podDefaults) =>
        replica === undefined || notes.problems.length > 0
          ? { problems: notes.problems }
          : readNeed(addReplicaRequests(replica, podDefaults)),
    };
  });
  return { topology, sets, graceMs: findGracePeriod({ replicas }) };
}

type Replica = PodNeed & { readonly template: PodTemplate };

function readReplica(
  spec: Fields,
  metadata: Fields | undefined,
  defaults: KindDefaults,
  notes: ReadNotes,
): Replica | undefined {
  const isShared = readIsShared(spec, readJobSharing(metadata));
  const template = readTemplate(spec, notes);
  const annotation = metadata?.object("annotations")?.text(POOL_ANNOTATION);
  const field = { known: false, pool: undefined };
  const { pool, otherPools } = choosePool({ path: spec.path, field, template, annotation }, defaults, notes);
  if (template === undefined || pool === undefined) return undefined;
  const selection = readNodeSelection(template.spec, defaults.poolLabel);
  const accepted = { pool, ...(otherPools && { otherPools }) };
  const replica = { template, ...accepted, ...(selection && { selection }), ...(isShared && { shared: {} }) };
  return addReplicaRequests(replica, NO_DEFAULTS);
}

function readNeed({ pool, otherPools, shared, selection }: Replica): PodNeed {
  return {
    pool,
    ...(otherPools && { otherPools }),
    ...(shared !== undefined && { shared }),
    ...(selection !== undefined && { selection }),
  };
}

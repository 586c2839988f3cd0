import { NO_DEFAULTS, nodeSelectionOf, type PodDefaults } from "@muster/resources";
import { choosePool, POOL_ANNOTATION } from "../choose-pool.ts";
import { parseIndexes } from "../completed-indexes.ts";
import type { PodTemplate } from "../job.ts";
import type { KindDefaults } from "../kind.ts";
import { QUEUE_LABEL } from "@muster/ledger-client/choose-queue";
import { fieldsOf, type Fields, type Notes } from "../read-fields.ts";
import { readIsShared, readJobSharing, replicaWith } from "../read-sharing.ts";
import { readTemplate } from "../read-template.ts";
import { readTopology } from "../read-topology.ts";
import { QUEUE_GATE, type BatchJob, type PodNeed } from "./batch-job.ts";

/** A batch Job as the API server stores it, and the parts of it that are read. */
export type BatchJobObject = {
  readonly metadata?: {
    readonly name?: string;
    readonly namespace?: string;
    readonly uid?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly deletionTimestamp?: unknown;
  };
  readonly spec?: {
    readonly suspend?: boolean;
    readonly parallelism?: number;
    readonly completions?: number;
    readonly template?: {
      readonly spec?: {
        readonly priorityClassName?: string;
        readonly schedulingGates?: readonly { readonly name: string }[];
      };
    };
  };
  readonly status?: {
    readonly active?: number;
    readonly succeeded?: number;
    readonly failedIndexes?: string;
    readonly startTime?: unknown;
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  };
};

/** A batch Job without what its pods need: that depends on the defaults of its namespace, too. */
export type BatchJobRow = Omit<BatchJob, "need"> & {
  readonly gates: readonly { readonly name: string }[];
  readonly priorityClass: string;
  readonly needWith: (defaults: PodDefaults) => BatchJob["need"];
};

const FINISHED: ReadonlySet<string> = new Set(["Complete", "Failed"]);

/** Never throws: the row contains the problems of the template. */
export function readBatchJob(object: BatchJobObject, defaults: KindDefaults): BatchJobRow {
  const { metadata = {}, spec = {}, status = {} } = object;
  const isTrue = (type: string): boolean =>
    status.conditions?.some((each) => each.type === type && each.status === "True") === true;
  const gates = spec.template?.spec?.schedulingGates ?? [];
  const queue = metadata.labels?.[QUEUE_LABEL] ?? "";
  const notes: Notes = { problems: [], warnings: [] };
  const root = fieldsOf(object, "", notes);
  // The template of a Job without a queue is not read: it may be anything.
  const written = queue === "" || root === undefined ? undefined : readNeed(root, defaults, notes);
  return {
    namespace: metadata.namespace ?? "",
    name: metadata.name ?? "",
    uid: metadata.uid ?? "",
    queue,
    deleting: metadata.deletionTimestamp !== undefined,
    finished: [...FINISHED].some(isTrue),
    suspended: spec.suspend === true,
    stopped: spec.suspend === true && isTrue("Suspended") && (status.active ?? 0) === 0,
    started: status.startTime !== undefined,
    gated: gates.some(({ name }) => name === QUEUE_GATE),
    pods: countPods(spec, status),
    topology: written?.topology,
    gates,
    priorityClass: spec.template?.spec?.priorityClassName ?? "",
    needWith: (podDefaults) =>
      written?.replica === undefined || notes.problems.length > 0
        ? { problems: notes.problems }
        : needOf(replicaWith(written.replica, podDefaults)),
  };
}

/** Without completions, Kubernetes creates no pod after the first has succeeded. */
function countPods(spec: NonNullable<BatchJobObject["spec"]>, status: NonNullable<BatchJobObject["status"]>): number {
  const { parallelism = 1, completions } = spec;
  const succeeded = status.succeeded ?? 0;
  if (completions === undefined) return succeeded > 0 ? Math.min(parallelism, status.active ?? 0) : parallelism;
  const failed = parseIndexes(status.failedIndexes ?? "", completions).length;
  return Math.max(0, Math.min(parallelism, completions - succeeded - failed));
}

type Replica = PodNeed & { readonly template: PodTemplate };

function readNeed(
  root: Fields,
  defaults: KindDefaults,
  notes: Notes,
): { readonly topology: string | undefined; readonly replica: Replica | undefined } {
  const metadata = root.object("metadata");
  const spec = root.object("spec");
  const topology = readTopology(metadata);
  if (spec === undefined) return { topology, replica: undefined };
  const isShared = readIsShared(spec, readJobSharing(metadata));
  const template = readTemplate(spec, notes);
  const annotation = metadata?.object("annotations")?.text(POOL_ANNOTATION);
  const field = { known: false, pool: undefined };
  const pool = choosePool({ path: spec.path, field, template, annotation }, defaults, notes);
  if (template === undefined || pool === undefined) return { topology, replica: undefined };
  const selection = nodeSelectionOf(template.spec, defaults.poolLabel);
  const replica = { template, pool, ...(selection && { selection }), ...(isShared && { shared: {} }) };
  return { topology, replica: replicaWith(replica, NO_DEFAULTS) };
}

function needOf({ pool, shared, selection }: Replica): PodNeed {
  return { pool, ...(shared !== undefined && { shared }), ...(selection !== undefined && { selection }) };
}

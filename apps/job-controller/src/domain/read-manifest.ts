import { findUnknownKeys } from "@muster/documents";
import type { JobSpec, PodTemplate, ReplicaSpec } from "./job.ts";
import type { Problem, ReadResult } from "./kind.ts";
import { type Fields, toFields, type ReadNotes } from "./read-fields.ts";
import { readIsPreemptible } from "./read-preemptible.ts";
import { readManagedBy } from "./read-run-policy.ts";
import { readTopology } from "./read-topology.ts";

/** A replica type during reading. Reading continues although its template or pool is invalid, so that all problems are reported together. */
export type ReplicaDraft = Omit<ReplicaSpec, "template" | "pool" | "shared" | "selection"> & {
  readonly template: PodTemplate | undefined;
  readonly pool: string | undefined;
};

export function isComplete(draft: ReplicaDraft): draft is ReplicaDraft & ReplicaSpec {
  return draft.template !== undefined && draft.pool !== undefined;
}

export type ParsedManifest = {
  readonly spec: Fields;
  readonly metadata: Fields | undefined;
  readonly notes: ReadNotes;
};

/** Reads any kind. Reports each problem once, and always returns the manager of the job. */
export function readManifest(resource: unknown, readSpec: (manifest: ParsedManifest) => JobSpec): ReadResult {
  const notes: ReadNotes = { problems: [], warnings: [] };
  const root = toFields(resource, "", notes);
  const metadata = root?.object("metadata");
  const fields = root?.object("spec");
  for (const { path, message } of findUnknownKeys(resource))
    notes.warnings.push({ field: path.join("."), reason: message });
  if (root !== undefined && root.raw("spec") === undefined) root.refuse("spec", "is missing");
  const managedBy = readManagedBy(fields?.object("runPolicy"));
  const topology = readTopology(metadata);
  const preemption = readIsPreemptible(metadata) ? {} : { notPreemptible: true };
  const spec =
    fields === undefined ? undefined : { ...readSpec({ spec: fields, metadata, notes }), topology, ...preemption };
  const [first, ...others] = unique(notes.problems);
  if (first !== undefined) return { ok: false, problems: [first, ...others], managedBy };
  if (spec === undefined) throw new Error("a manifest without a spec and without a problem");
  return { ok: true, spec, warnings: unique(notes.warnings) };
}

function unique(problems: readonly Problem[]): Problem[] {
  const seen = new Map(problems.map((problem) => [`${problem.field}\n${problem.reason}`, problem]));
  return [...seen.values()].sort((a, b) => compare(a.field, b.field) || compare(a.reason, b.reason));
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

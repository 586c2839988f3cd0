import type { KubeObject, KubeResource } from "@muster/kube";
import { annotations } from "@muster/proto";
import type { JobSpec } from "../domain/job.ts";
import type { Kind, KindDefaults, Problem, ReadResult } from "../domain/kind.ts";
import { buildTypeSelector } from "../domain/member-labels.ts";
import type { JobStatus } from "../domain/job-status.ts";
import type { UnreadableSpec } from "../domain/snapshot.ts";
import { readStatus, parseTotal, listReplicaTypes, type StatusShape } from "./status-json.ts";

/** A custom resource of any kind, as the API server stores it. */
export type JobResource = KubeObject & {
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly uid: string;
    readonly resourceVersion?: string;
    readonly generation?: number;
    readonly creationTimestamp?: Date | string;
    readonly deletionTimestamp?: Date | string;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly spec?: unknown;
  /** The status is unvalidated, because people can edit it and older versions wrote it. */
  readonly status?: unknown;
};

/** A job as passes use it, parsed once for each version of the resource. */
export type JobRow = {
  readonly resource: JobResource;
  readonly metadata: JobResource["metadata"];
  readonly kind: Kind;
  readonly spec: JobSpec | UnreadableSpec;
  readonly warnings: readonly Problem[];
  readonly status: JobStatus;
  readonly shape: StatusShape;
  /** Whether a client has requested the cancellation of the job. */
  readonly cancelled: boolean;
  /** The W3C traceparent of its submission; empty if it has none. */
  readonly traceparent: string;
};

/** Reads a job. Never throws: the row contains the problems of the spec. */
export function readJob(resource: JobResource, kind: Kind, defaults: KindDefaults): JobRow {
  const { metadata } = resource;
  const result = kind.read(resource, defaults);
  const progress = metadata.annotations?.[annotations.progress];
  const selector = (type: string): string => buildTypeSelector(kind.labelKeys, metadata, type);
  const shape = { statusKey: kind.statusKey, selector, ...typesAndTotal(resource, result, progress) };
  return {
    resource,
    metadata,
    kind,
    spec: result.ok ? result.spec : result,
    warnings: result.ok ? result.warnings : [],
    status: readStatus(resource.status, progress, shape),
    shape,
    cancelled: metadata.annotations?.[annotations.cancelled] !== undefined,
    traceparent: metadata.annotations?.[annotations.traceparent] ?? "",
  };
}

function typesAndTotal(
  { status }: JobResource,
  result: ReadResult,
  progress: string | undefined,
): Pick<StatusShape, "types" | "total"> {
  if (result.ok) return { types: result.spec.replicas.map(({ type, replicas }) => ({ type, replicas })) };
  return {
    types: listReplicaTypes(status, progress).map((type) => ({ type, replicas: 0 })),
    total: parseTotal(status),
  };
}

/** Returns the jobs of the kind in the namespace of a job. */
export function buildJobPlace(
  { group, version, plural }: Kind,
  { namespace }: Pick<JobResource["metadata"], "namespace">,
): KubeResource {
  return { apiVersion: `${group}/${version}`, plural, namespace };
}

/** Returns the version as a number, because Kubernetes compares versions of one resource as numbers. */
export function parseVersion({ metadata }: { readonly metadata: { readonly resourceVersion?: string } }): bigint {
  return BigInt(metadata.resourceVersion ?? "0");
}

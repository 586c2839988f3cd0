import { listAcceptedPools } from "@muster/resources";
import type { Job, Lease, ReplicaSet, Session } from "../adapters/messages.ts";

export const WORK_KINDS = ["session", "job", "replica-set", "lease"] as const;
export type WorkKind = (typeof WORK_KINDS)[number];

/** The stages in the life of work of any kind. */
export const STAGES = ["waiting", "starting", "running", "ending", "succeeded", "failed", "cancelled"] as const;
export type Stage = (typeof STAGES)[number];

/** Work of any kind, as lists show it. */
export type Work = {
  readonly kind: WorkKind;
  /** Unique among the work of its kind: the last segments of its address. */
  readonly id: string;
  readonly name: string;
  /** The kind of a job, or the type of a lease; otherwise empty. */
  readonly type: string;
  readonly stage: Stage;
  /** The state in the words of its service. */
  readonly state: string;
  readonly pools: readonly string[];
  readonly machines: number;
  readonly createdAtMs: number;
  /** Zero until the work is over. */
  readonly finishedAtMs: number;
  /** The stable reason of a wait or a failure; empty without either. */
  readonly code: string;
  /** The reason in words for users. */
  readonly because: string;
  /** The id by which the ledger knows a job; empty for other kinds. */
  readonly ownerId: string;
  /** The W3C traceparent; empty if none. */
  readonly traceparent: string;
};

/** Work as its service returns it, by kind. */
export type WorkItem =
  | { readonly kind: "session"; readonly item: Session }
  | { readonly kind: "job"; readonly item: Job }
  | { readonly kind: "replica-set"; readonly item: ReplicaSet }
  | { readonly kind: "lease"; readonly item: Lease };

export function workOf({ kind, item }: WorkItem): Work {
  switch (kind) {
    case "session":
      return workOfSession(item);
    case "job":
      return workOfJob(item);
    case "replica-set":
      return workOfSet(item);
    case "lease":
      return workOfLease(item);
  }
}

const SESSION_STAGES: Readonly<Record<string, Stage>> = {
  QUEUE: "waiting",
  ACCEPT: "starting",
  PROVISION: "starting",
  RUN: "running",
  DONE: "succeeded",
  ERROR: "failed",
  INTERNAL_ERROR: "failed",
  CANCELLED: "cancelled",
};

export function workOfSession(session: Session): Work {
  const last = session.events.at(-1);
  const state = last?.kind ?? "QUEUE";
  const known = SESSION_STAGES[state] ?? "waiting";
  const isOver = ["succeeded", "failed", "cancelled"].includes(known);
  const stage = session.cancelRequested && !isOver ? "ending" : known;
  const isFailed = known === "failed";
  // Before the grant, the status names only the first pool of each component.
  const accepted = known === "waiting" ? (session.spec?.components ?? []).flatMap(listAcceptedPools) : [];
  return {
    kind: "session",
    id: session.name,
    name: session.name,
    type: "",
    stage,
    state,
    pools: namesOf([...session.components.map(({ pool }) => pool), ...accepted]),
    machines: session.components.length,
    createdAtMs: session.createdAtMs,
    finishedAtMs: session.finishedAtMs,
    code: isFailed ? (last?.reason ?? "") : session.waitingCode,
    because: isFailed ? (last?.description ?? "") : session.waitingBecause,
    ownerId: "",
    traceparent: session.traceparent,
  };
}

const JOB_STAGES: Readonly<Record<string, Stage>> = {
  QUEUED: "waiting",
  SUSPENDED: "waiting",
  PREEMPTED: "waiting",
  STARTING: "starting",
  RESTARTING: "starting",
  RUNNING: "running",
  SUCCEEDED: "succeeded",
  FAILED: "failed",
};

export function workOfJob(job: Job): Work {
  const { namespace = "", name = "", kind = "" } = job.key ?? {};
  const failure = job.conditions.find(({ type, isTrue }) => isTrue && type === "Failed");
  const wait = job.conditions.find(({ type, isTrue }) => !isTrue && type === "MachinesReserved");
  const isCancelled = job.state === "FAILED" && failure?.reason === "Cancelled";
  const stage = isCancelled ? "cancelled" : (JOB_STAGES[job.state] ?? "waiting");
  const waits = stage === "waiting" ? (wait?.reason ?? job.state) : "";
  return {
    kind: "job",
    id: `${namespace}/${name}`,
    name,
    type: kind,
    stage,
    state: isCancelled ? "CANCELLED" : job.state,
    ...poolsOf(job.members),
    createdAtMs: job.createdAtMs,
    finishedAtMs: job.finishedAtMs,
    code: stage === "failed" ? (failure?.reason ?? "") : waits,
    because: stage === "failed" ? (failure?.message ?? "") : job.waitingBecause,
    ownerId: job.ownerId,
    traceparent: job.traceparent,
  };
}

export function workOfSet(set: ReplicaSet): Work {
  const { record } = set;
  const isWhole = set.healthy >= set.replicasDesired;
  const state = stateOfSet(set, isWhole);
  return {
    kind: "replica-set",
    id: record?.name ?? "",
    name: record?.name ?? "",
    type: "",
    stage: state === "DELETING" ? "ending" : isWhole ? "running" : record?.trouble ? "waiting" : "starting",
    state,
    pools: record?.spec?.pool ? [record.spec.pool] : [],
    machines: set.replicasDesired,
    createdAtMs: record?.createdAtMs ?? 0,
    finishedAtMs: 0,
    code: record?.trouble?.code ?? "",
    because: record?.trouble?.message ?? `${set.healthy} of ${set.replicasDesired} replicas are healthy`,
    ownerId: "",
    traceparent: record?.traceparent ?? "",
  };
}

function stateOfSet({ record }: ReplicaSet, isWhole: boolean): string {
  if (record?.deletion) return "DELETING";
  if (record?.disabled) return "DISABLED";
  if (record?.roll) return "ROLLING";
  if (record?.transfer) return "TRANSFERRING";
  return isWhole ? "HEALTHY" : "INCOMPLETE";
}

const LEASE_STAGES: Readonly<Record<string, Stage>> = {
  ORDERED: "waiting",
  PROVISIONING: "starting",
  ACTIVE: "running",
  DECOMMISSIONING: "ending",
  ENDED: "succeeded",
  FAILED: "failed",
};
const LEASE_FAILURES: readonly string[] = ["CRASHED", "PROVISION_FAILED"];

export function workOfLease({ record, waitingBecause, stuck }: Lease): Work {
  const state = record?.phase ?? "ORDERED";
  const { cause = "", message = "" } = record?.ending ?? {};
  const isFailed = state === "FAILED" || (state === "ENDED" && LEASE_FAILURES.includes(cause));
  const waits = waitingBecause === "" ? "" : "WAITING";
  return {
    kind: "lease",
    id: record?.order?.id ?? "",
    name: record?.order?.id ?? "",
    type: record?.order?.type ?? "",
    stage: isFailed ? "failed" : (LEASE_STAGES[state] ?? "waiting"),
    state,
    pools: [],
    machines: 0,
    createdAtMs: timeOf(record?.order?.created),
    finishedAtMs: timeOf(record?.endedAt),
    code: isFailed ? cause || "FAILED" : stuck ? "STUCK" : waits,
    because: isFailed ? message || (record?.trouble ?? "") : waitingBecause,
    ownerId: "",
    traceparent: record?.traceparent ?? "",
  };
}

/** Parses an RFC 3339 time into milliseconds since 1970; 0 for undefined. */
export function timeOf(time: string | undefined): number {
  return time === undefined ? 0 : Date.parse(time);
}

function poolsOf(parts: readonly { readonly pool: string }[]): Pick<Work, "pools" | "machines"> {
  return { pools: namesOf(parts.map(({ pool }) => pool)), machines: parts.length };
}

function namesOf(pools: readonly string[]): readonly string[] {
  return [...new Set(pools)].filter((pool) => pool !== "").sort();
}

/** Returns the path of the work that the ledger knows by this owner. The id of a replica set is the part before `--`. */
export function workPathOf({ kind, id }: { readonly kind: string; readonly id: string }): string | undefined {
  const name = id.split("--")[0] ?? "";
  return kind === "session" || kind === "replica-set" || kind === "lease" ? `${kind}/${name}` : undefined;
}

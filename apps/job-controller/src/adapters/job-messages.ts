import { type muster } from "@muster/proto";
import { buildOwnerId } from "../domain/build-units.ts";
import { decideRestart, type RestartPauses } from "../domain/decide-restart.ts";
import { explainRestart } from "../domain/explain-restart.ts";
import { findCondition } from "../domain/job-status.ts";
import type { PodFact, UnitSeen } from "../domain/snapshot.ts";
import { summariseMembers } from "../domain/summarise-members.ts";
import { findBlockingCondition, summariseState, type JobState } from "../domain/summarise-state.ts";
import type { JobRow } from "./read-job.ts";

type JobMessage = muster.job.v1.Job.$Properties;

/** The facts about a job that its resource lacks. */
type JobSurroundings = {
  readonly pods: readonly PodFact[];
  readonly units: readonly UnitSeen[];
  readonly pauses: RestartPauses;
  readonly nowMs: number;
};

/** Builds the message of a job for replies. */
export function toWireJob(job: JobRow, surroundings: JobSurroundings): JobMessage {
  const { pods, units } = surroundings;
  const { metadata, kind, spec, status, shape } = job;
  const total = shape.types.reduce((sum, { replicas }) => sum + replicas, 0);
  const { state, message, restarts } = summariseState(status, total);
  const summaries = "problems" in spec ? [] : summariseMembers(spec, status, pods, units);
  const members = summaries.map(({ shared, ...member }) => {
    return { ...member, ...(shared !== undefined && { shared: { requests: shared } }) };
  });
  return {
    key: { kind: kind.kind, name: metadata.name, namespace: metadata.namespace },
    uid: metadata.uid,
    revision: buildRevision(job, pods),
    state: state.toUpperCase(),
    conditions: status.conditions.map((condition) => ({
      type: condition.type,
      isTrue: condition.status === "True",
      reason: condition.reason,
      message: condition.message,
      lastTransitionMs: condition.lastTransitionMs,
    })),
    replicas: status.replicas.map(({ type, active, ready, succeeded, failed, restarts: own }) => {
      const replicas = shape.types.find((each) => each.type === type)?.replicas ?? 0;
      return { type, replicas, active, ready, succeeded, failed, restarts: own };
    }),
    members,
    createdAtMs: new Date(metadata.creationTimestamp ?? 0).getTime(),
    startedAtMs: status.startMs ?? 0,
    finishedAtMs: status.completionMs ?? 0,
    waitingBecause: toWireWait(job, surroundings, state, message),
    traceparent: job.traceparent,
    ownerId: buildOwnerId(metadata),
    restarts,
  };
}

/** Returns a revision that changes with the job and with each of its pods, because a watching client shows both. */
export function buildRevision({ metadata }: JobRow, pods: readonly PodFact[]): string {
  const facts = pods.map(
    ({ uid, phase, ready, deleting, containerRestarts, trouble }) =>
      `${uid}${phase}${ready}${deleting}${containerRestarts}${trouble?.reason ?? ""}`,
  );
  let hash = 0x811c9dc5;
  for (const char of facts.sort().join()) hash = Math.imul(hash ^ (char.codePointAt(0) ?? 0), 0x01000193) >>> 0;
  return `${metadata.resourceVersion ?? "0"}-${hash.toString(36)}`;
}

function toWireWait(
  { spec, status }: JobRow,
  { pods, pauses, nowMs }: JobSurroundings,
  state: JobState,
  message: string,
): string {
  if (!("problems" in spec) && spec.managedBy !== undefined) return `it is managed by ${spec.managedBy}`;
  if (state === "Restarting" && !("problems" in spec)) {
    // Compute the remaining pause, because the status contains the pause at the time of its last write.
    const restart = decideRestart({ spec, status, pods }, pauses, nowMs);
    if (restart !== undefined && restart.atMs > nowMs) return explainRestart(restart, nowMs);
  }
  switch (state) {
    case "Queued":
      // This replica may not lead, so only the status shows whether a leader has made a pass.
      // If pods exist, a leader has made a pass and writes the status later.
      if (findCondition(status, "Created") === undefined)
        return pods.length > 0 ? "" : "no leading job-controller has made a pass over it yet";
      return findCondition(status, "MachinesReserved") === undefined ? "the ledger has not answered yet" : message;
    case "Suspended":
      return "it is suspended";
    case "Preempted":
      return message;
    default: {
      const lacksRights = state === "Starting" && findCondition(status, "MachinesReserved")?.reason === "RightsMissing";
      return lacksRights || findBlockingCondition(status, state) !== undefined ? message : "";
    }
  }
}

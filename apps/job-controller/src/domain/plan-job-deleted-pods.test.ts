import { describe, expect, it } from "vitest";
import {
  makeEndedPod,
  makePodFact,
  POLICY,
  makeReplica,
  makeReplicaSeen,
  makeSnapshot,
  makeSpec,
} from "../../test/samples.ts";
import { isEndRecorded } from "./is-end-recorded.ts";
import type { JobSpec } from "./job.ts";
import { NEW_STATUS, type JobStatus } from "./job-status.ts";
import { planJob } from "./plan-job.ts";
import type { JobPlan } from "./plan-steps.ts";
import type { PodFact, Snapshot } from "./snapshot.ts";
import { summariseState } from "./summarise-state.ts";

const GONE = { deleting: true, endedFirst: true };
const RESTART_JOB = {
  action: "RestartJob",
  replicaTypes: [],
  on: { exitCodes: "In", values: [3], container: undefined },
} as const;

function look(member: PodFact | undefined, of: JobSpec, status: JobStatus = NEW_STATUS, more: Partial<Snapshot> = {}) {
  const replicas = [makeReplicaSeen("worker", [makePodFact("worker-0"), member])];
  return planJob(makeSnapshot({ spec: of, status, replicas, budget: 2, ...more }), POLICY);
}

function counts({ status }: JobPlan): string {
  const [worker] = status.replicas;
  return `${summariseState(status, 2).state}, ${worker?.restarts} counted, completed [${worker?.completedIndexes.join()}]`;
}

const made = ({ steps }: JobPlan): readonly number[] =>
  steps.flatMap((step) => (step.kind === "create-pods" ? step.pods.map(({ index }) => index) : []));

const backoff = (backoffLimit: number): JobSpec => makeSpec({ backoffLimit });
const never = makeSpec({ replicas: [makeReplica("worker", 2, { restartPolicy: "Never" })] });

describe("a pod that ended, and that a client deleted before a pass observed it", () => {
  it.each<[what: string, PodFact, JobSpec, string]>([
    ["has completed its index", makeEndedPod("worker-1", 0, GONE), makeSpec(), "Running, 0 counted, completed [1]"],
    [
      "has failed, and that counts",
      makeEndedPod("worker-1", 1, GONE),
      backoff(3),
      "Restarting, 1 counted, completed []",
    ],
    [
      "fails the job beyond its budget",
      makeEndedPod("worker-1", 1, GONE),
      backoff(0),
      "Failed, 1 counted, completed []",
    ],
    ["fails a job without restarts", makeEndedPod("worker-1", 1, GONE), never, "Failed, 0 counted, completed []"],
    [
      "does not count if its deletion was requested before its end, even if it succeeded",
      makeEndedPod("worker-1", 0, { deleting: true }),
      makeSpec(),
      "Running, 0 counted, completed []",
    ],
    [
      "does not count if its deletion was requested before its failure",
      makeEndedPod("worker-1", 1, { deleting: true }),
      backoff(0),
      "Running, 0 counted, completed []",
    ],
    [
      "does not count if its end was not observed",
      makePodFact("worker-1", { deleting: true }),
      backoff(0),
      "Running, 0 counted, completed []",
    ],
  ])("%s", (_what, member, of, said) => {
    const first = look(member, of);
    expect(counts(first)).toBe(said);
    expect(made(first)).toEqual([]);
  });

  it("is counted once, even if the answer to the write was lost", () => {
    const failed = makeEndedPod("worker-1", 1, GONE);
    const first = look(failed, backoff(3));
    expect(counts(look(failed, backoff(3), first.status))).toBe("Restarting, 1 counted, completed []");
    expect(counts(look(undefined, backoff(3), first.status))).toContain("1 counted");
  });

  it("is recreated after its failure is recorded, and never after a completion", () => {
    const failed = look(makeEndedPod("worker-1", 1, GONE), backoff(3));
    expect(made(look(undefined, backoff(3), failed.status))).toEqual([1]);
    const done = look(makeEndedPod("worker-1", 0, GONE), makeSpec());
    expect(made(look(undefined, makeSpec(), done.status))).toEqual([]);
  });

  it("restarts the whole gang if its rule requires it, and is remembered during the pause", () => {
    const of = makeSpec({ failurePolicy: [RESTART_JOB] });
    const member = makeEndedPod("worker-1", 3, GONE);
    const now = look(member, of);
    expect(now.status.attempt).toBe(0);
    expect(isEndRecorded(member, of, now.status)).toBe(false);
    const nowMs = makeSnapshot().nowMs + POLICY.restartBackoffMs;
    const later = look(member, of, now.status, { nowMs });
    expect(later.status.attempt).toBe(1);
    expect(isEndRecorded(member, of, later.status)).toBe(true);
  });

  it("is kept while the spec that decides the meaning of its end is unreadable", () => {
    const member = makeEndedPod("worker-1", 1, GONE);
    const unreadable = { ok: false, problems: [{ field: "spec", reason: "no" }], managedBy: undefined } as const;
    expect(isEndRecorded(member, unreadable, NEW_STATUS)).toBe(false);
    expect(isEndRecorded(member, makeSpec(), NEW_STATUS)).toBe(true);
  });
});

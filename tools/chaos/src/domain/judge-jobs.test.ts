import { describe, expect, it } from "vitest";
import { decideJobOutcomes } from "./decide-job-outcomes.ts";
import { listLeftoverJobs, listLeftoverPods, listLeftoverServices } from "./decide-leftovers.ts";
import { judgeJobs } from "./judge-jobs.ts";
import { type JobSeen, type RunObservations, type PodSeen, getWorkOfOwner } from "./observed.ts";
import { type UserAction, type JobIntent, type JobShape, planJobs } from "./plan-jobs.ts";

const POLICY = { jobs: 1, windowMs: 0, pools: { drivers: 4, workers: 12 } };
const [ANY] = planJobs(1, POLICY);
const WORKER = { ...ANY!.types[0]!, type: "worker", replicas: 1, restartPolicy: "ExitCode" } as const;

function shape(changes: Partial<JobShape> = {}): JobShape {
  return {
    ...ANY!,
    name: "j001",
    types: [WORKER],
    backoffLimit: 1,
    ttlS: undefined,
    userAction: undefined,
    ...changes,
  };
}

function userAction(kind: UserAction["kind"], phase: UserAction["phase"] = "running"): UserAction {
  return { kind, phase, afterMs: 0, forMs: 0 };
}

const DONE: JobSeen = {
  name: "j001",
  createdAtMs: 1000,
  ends: ["Succeeded"],
  endedAtMs: 2000,
  goneMs: undefined,
  state: "Succeeded=True",
};

const POD: PodSeen = {
  name: "j001-worker-0",
  uid: "u1",
  kind: "job",
  work: "j001",
  component: "worker-0",
  firstSeenMs: 1001,
  confirmed: true,
  node: "workers-0",
  boundPlace: 2,
  endPlace: 4,
  goneMs: undefined,
  states: [],
};
const AGAIN: PodSeen = { ...POD, uid: "u2", boundPlace: 5, endPlace: 6 };
const THIRD: PodSeen = { ...POD, uid: "u3", boundPlace: 7, endPlace: 8 };

const CLEAN: RunObservations = {
  sessions: new Map(),
  jobs: new Map([["j001", DONE]]),
  acknowledged: new Set(["j001"]),
  refused: new Map(),
  published: new Map(),
  pods: [POD],
  ledger: [{ kind: "granted", atMs: 1001, reservation: "r1", work: "j001", nodes: ["workers-0"] }],
  outages: [],
  podDeletions: [],
  faults: [],
  left: { pods: [], jobs: [], objects: [], reservations: [], machines: [], deadLetters: [], locks: [] },
};

function seen(changes: Partial<JobSeen>): Partial<RunObservations> {
  return { jobs: new Map([["j001", { ...DONE, ...changes }]]) };
}

function rules(changes: Partial<RunObservations>, job = shape()): string[] {
  return judgeJobs([job], { ...CLEAN, ...changes }).map(({ rule }) => rule);
}

describe("judgeJobs", () => {
  it("finds no violation for a good job", () => {
    expect(judgeJobs([shape()], CLEAN)).toEqual([]);
  });

  it.each<[string, Partial<RunObservations>]>([
    ["an acknowledged submission is never lost", { jobs: new Map() }],
    ["every submission is acknowledged in the end", { jobs: new Map(), acknowledged: new Set() }],
    ["a valid request is not refused", { refused: new Map([["j001", "submission: j001 exists already"]]) }],
    ["every job ends", seen({ ends: [] })],
    ["a job ends exactly once", seen({ ends: ["Succeeded", "Failed PodFailed"] })],
    ["a job ends exactly once", seen({ ends: ["Succeeded", "none"] })],
    ["the outcome is allowed", seen({ ends: ["Failed PodFailed"] })],
    ["the outcome is allowed", seen({ ends: ["Succeeded and Failed PodFailed"] })],
    ["no expired or deleted job is left", { left: { ...CLEAN.left, jobs: ["j001"] } }],
    ["a job without a deletion stays", seen({ goneMs: 3000 })],
    ["no member of a job runs twice concurrently", { pods: [POD, { ...AGAIN, boundPlace: 3 }] }],
    ["no member of a job runs twice concurrently", { pods: [{ ...POD, endPlace: undefined }, AGAIN] }],
    ["no more pods are created than the budgets allow", { pods: [POD, AGAIN, THIRD] }],
  ])("%s", (rule, changes) => {
    expect(rules(changes)).toContain(rule);
  });

  it("allows the deletion of a job by its user, and of a job with a time to live after its end", () => {
    expect(rules(seen({ goneMs: 3000 }), shape({ ttlS: 2 }))).toEqual([]);
    expect(rules(seen({ goneMs: 3000, ends: [] }), shape({ ttlS: 2 }))).toEqual(["every job ends"]);
    expect(rules(seen({ goneMs: 3000, ends: [] }), shape({ userAction: userAction("delete") }))).toEqual([]);
  });

  it("counts each restart of the budget as one pod, and each attempt of a gang as all pods", () => {
    expect(rules({ pods: [POD, AGAIN] })).toEqual([]);
    const gang = shape({ restartsAll: true, types: [{ ...WORKER, replicas: 2 }] });
    const four = [POD, AGAIN, { ...POD, component: "worker-1" }, { ...AGAIN, component: "worker-1" }];
    expect(rules({ pods: four }, gang)).toEqual([]);
    expect(rules({ pods: [...four, THIRD] }, gang)).toEqual(["no more pods are created than the budgets allow"]);
  });

  it("allows more pods for a deleted pod, a pause, and a machine that was off", () => {
    const three = { pods: [POD, AGAIN, THIRD] };
    expect(rules({ ...three, podDeletions: [{ work: "j001", pod: "worker-0", atMs: 1500 }] })).toEqual([]);
    expect(rules({ ...three, podDeletions: [{ work: "j002", pod: "worker-0", atMs: 1500 }] })).not.toEqual([]);
    expect(rules(three, shape({ userAction: userAction("suspend") }))).toEqual([]);
    expect(rules({ ...three, outages: [{ node: "workers-0", fromMs: 1200, toMs: 1300 }] })).toEqual([]);
    expect(rules({ ...three, outages: [{ node: "workers-1", fromMs: 1200, toMs: 1300 }] })).not.toEqual([]);
  });

  it("allows as many more pods as the gang has for each preemption, after which its reservation is granted again", () => {
    const [first] = CLEAN.ledger;
    const granted = (reservation: string) => ({
      ...first,
      kind: "granted" as const,
      atMs: 1400,
      reservation,
      work: "j001",
      nodes: [],
    });
    const ended = { kind: "ended" as const, atMs: 1300, reservation: "r1" };
    const three = [POD, AGAIN, THIRD];
    expect(rules({ pods: three, ledger: [...CLEAN.ledger, ended, granted("r1")] })).toEqual([]);
    expect(rules({ pods: three, ledger: [...CLEAN.ledger, ended, granted("r2")] })).toEqual([
      "no more pods are created than the budgets allow",
    ]);
  });

  it("allows one more pod for a part of a machine that had no room for its pod, and for no other pod", () => {
    const unplaced = { ...POD, uid: "u4", isShared: true, boundPlace: undefined, goneMs: POD.firstSeenMs + 8000 };
    expect(rules({ pods: [POD, AGAIN, unplaced] })).toEqual([]);
    for (const other of [
      { isShared: false },
      { boundPlace: 9, endPlace: 10 },
      { goneMs: POD.firstSeenMs + 7999 },
      { goneMs: undefined },
    ])
      expect(rules({ pods: [POD, AGAIN, { ...unplaced, ...other }] })).toEqual([
        "no more pods are created than the budgets allow",
      ]);
  });

  it("allows the failure of a job whose machine was off, and of no other", () => {
    const failed = seen({ ends: ["Failed BackoffLimitExceeded"] });
    const outage = { node: "workers-0", fromMs: 1200, toMs: 1300 };
    expect(rules({ ...failed, outages: [outage] })).toEqual([]);
    expect(rules({ ...failed, outages: [{ ...outage, node: "workers-1" }] })).toEqual(["the outcome is allowed"]);
  });
});

describe("decideJobOutcomes", () => {
  it.each<[JobIntent, string[]]>([
    ["good", ["Succeeded"]],
    ["flaky-beside", ["Succeeded"]],
    ["member-fails", ["Failed PodFailed"]],
    ["permanent-code", ["Failed PermanentExitCode"]],
    ["budget-spent", ["Failed BackoffLimitExceeded"]],
    ["gang-restarts", ["Failed BackoffLimitExceeded"]],
    ["deadline", ["Failed DeadlineExceeded"]],
    ["pool-too-small", []],
  ])("%s: %j", (intent, outcomes) => {
    expect(decideJobOutcomes(shape({ intent }), { nodeLost: false }).outcomes).toEqual(outcomes);
  });

  it("allows a cancellation before the end, and none after it", () => {
    const outcomes = (job: JobShape): readonly string[] => decideJobOutcomes(job, { nodeLost: false }).outcomes;
    expect(outcomes(shape({ userAction: userAction("cancel") }))).toEqual(["Failed Cancelled", "Succeeded"]);
    expect(outcomes(shape({ userAction: userAction("cancel", "cleaning-up") }))).toEqual(["Succeeded"]);
  });

  it("allows an immediate failure of a job without restarts when one of its machines was off", () => {
    const never = shape({ types: [{ ...WORKER, restartPolicy: "Never" }] });
    expect(decideJobOutcomes(never, { nodeLost: true }).outcomes).toContain("Failed PodFailed");
    expect(decideJobOutcomes(shape(), { nodeLost: true }).outcomes).not.toContain("Failed PodFailed");
  });
});

describe("leftovers", () => {
  const exists = (): boolean => true;
  const gone = (): boolean => false;
  const ended = { name: "p", kind: "job", work: "j001", phase: "Succeeded" } as const;

  it("are all running pods, and the ended pods that the job's policy removes", () => {
    const running = shape({ cleanPodPolicy: "Running" });
    expect(listLeftoverPods([ended], [running], exists)).toEqual([]);
    expect(listLeftoverPods([{ ...ended, phase: "Running" }], [running], exists)).toEqual(["p"]);
    expect(listLeftoverPods([ended], [shape({ cleanPodPolicy: "All" })], exists)).toEqual(["p"]);
    expect(listLeftoverPods([ended], [running], gone)).toEqual(["p"]);
    expect(listLeftoverPods([{ ...ended, kind: "session" }], [running], exists)).toEqual(["p"]);
  });

  it("are all services except those of jobs that keep all", () => {
    const service = { name: "j001", work: "j001" };
    expect(listLeftoverServices([service], [shape({ cleanPodPolicy: "None" })], exists)).toEqual([]);
    expect(listLeftoverServices([service], [shape({ cleanPodPolicy: "None" })], gone)).toEqual(["service j001"]);
    expect(listLeftoverServices([service], [shape({ cleanPodPolicy: "All" })], exists)).toEqual(["service j001"]);
  });

  it("are all jobs that are expired or deleted", () => {
    expect(listLeftoverJobs([shape(), shape({ name: "j002", ttlS: 1 })], exists)).toEqual(["j002"]);
    expect(listLeftoverJobs([shape({ userAction: userAction("delete") }), shape({ ttlS: 1 })], gone)).toEqual([]);
  });
});

describe("workOf", () => {
  it("finds the job in ids of gangs and of single members", () => {
    expect(getWorkOfOwner("j001-0123456789ab")).toBe("j001");
    expect(getWorkOfOwner("j001-0123456789ab--worker-3")).toBe("j001");
    expect(getWorkOfOwner("s001")).toBe("s001");
    expect(getWorkOfOwner("s001--0123abcd-2")).toBe("s001");
  });
});

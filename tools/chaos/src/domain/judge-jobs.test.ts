import { describe, expect, it } from "vitest";
import { decideJobOutcomes } from "./decide-job-outcomes.ts";
import { jobsToGo, podsToGo, servicesToGo } from "./decide-leftovers.ts";
import { judgeJobs } from "./judge-jobs.ts";
import { type JobSeen, type Observed, type PodSeen, workOf } from "./observed.ts";
import { type Deed, type JobIntent, type JobShape, planJobs } from "./plan-jobs.ts";

const POLICY = { jobs: 1, windowMs: 0, pools: { drivers: 4, workers: 12 } };
const [ANY] = planJobs(1, POLICY);
const WORKER = { ...ANY!.types[0]!, type: "worker", replicas: 1, restartPolicy: "ExitCode" } as const;

function shape(changes: Partial<JobShape> = {}): JobShape {
  return { ...ANY!, name: "j001", types: [WORKER], backoffLimit: 1, ttlS: undefined, deed: undefined, ...changes };
}

function deed(does: Deed["do"], phase: Deed["phase"] = "running"): Deed {
  return { do: does, phase, afterMs: 0, forMs: 0 };
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

const CLEAN: Observed = {
  sessions: new Map(),
  jobs: new Map([["j001", DONE]]),
  acknowledged: new Set(["j001"]),
  refused: new Map(),
  published: new Map(),
  pods: [POD],
  ledger: [{ fact: "granted", atMs: 1001, reservation: "r1", work: "j001", nodes: ["workers-0"] }],
  outages: [],
  podDeletions: [],
  faults: [],
  left: { pods: [], jobs: [], objects: [], reservations: [], machines: [], deadLetters: [], locks: [] },
};

function seen(changes: Partial<JobSeen>): Partial<Observed> {
  return { jobs: new Map([["j001", { ...DONE, ...changes }]]) };
}

function rules(changes: Partial<Observed>, job = shape()): string[] {
  return judgeJobs([job], { ...CLEAN, ...changes }).map(({ rule }) => rule);
}

describe("judgeJobs", () => {
  it("finds nothing wrong with a good job", () => {
    expect(judgeJobs([shape()], CLEAN)).toEqual([]);
  });

  it.each<[string, Partial<Observed>]>([
    ["an acknowledged submission is never lost", { jobs: new Map() }],
    ["every submission is acknowledged in the end", { jobs: new Map(), acknowledged: new Set() }],
    ["a valid request is not refused", { refused: new Map([["j001", "submission: j001 exists already"]]) }],
    ["every job ends", seen({ ends: [] })],
    ["a job ends once, and for ever", seen({ ends: ["Succeeded", "Failed PodFailed"] })],
    ["a job ends once, and for ever", seen({ ends: ["Succeeded", "none"] })],
    ["the outcome is a right one", seen({ ends: ["Failed PodFailed"] })],
    ["the outcome is a right one", seen({ ends: ["Succeeded and Failed PodFailed"] })],
    ["no job is left whose time is over", { left: { ...CLEAN.left, jobs: ["j001"] } }],
    ["a job stays that nobody takes away", seen({ goneMs: 3000 })],
    ["no member of a job runs twice at once", { pods: [POD, { ...AGAIN, boundPlace: 3 }] }],
    ["no member of a job runs twice at once", { pods: [{ ...POD, endPlace: undefined }, AGAIN] }],
    ["no more pods are made than budgets allow", { pods: [POD, AGAIN, THIRD] }],
  ])("%s", (rule, changes) => {
    expect(rules(changes)).toContain(rule);
  });

  it("lets a job go that its user deletes or that has a time, and has the second one end before", () => {
    expect(rules(seen({ goneMs: 3000 }), shape({ ttlS: 2 }))).toEqual([]);
    expect(rules(seen({ goneMs: 3000, ends: [] }), shape({ ttlS: 2 }))).toEqual(["every job ends"]);
    expect(rules(seen({ goneMs: 3000, ends: [] }), shape({ deed: deed("delete") }))).toEqual([]);
  });

  it("takes each restart of the budget for one pod, and each attempt of a gang for all of them", () => {
    expect(rules({ pods: [POD, AGAIN] })).toEqual([]);
    const gang = shape({ restartsAll: true, types: [{ ...WORKER, replicas: 2 }] });
    const four = [POD, AGAIN, { ...POD, component: "worker-1" }, { ...AGAIN, component: "worker-1" }];
    expect(rules({ pods: four }, gang)).toEqual([]);
    expect(rules({ pods: [...four, THIRD] }, gang)).toEqual(["no more pods are made than budgets allow"]);
  });

  it("takes a pod that somebody deleted, a pause, and a machine that was off, for what they cost", () => {
    const three = { pods: [POD, AGAIN, THIRD] };
    expect(rules({ ...three, podDeletions: [{ work: "j001", pod: "worker-0", atMs: 1500 }] })).toEqual([]);
    expect(rules({ ...three, podDeletions: [{ work: "j002", pod: "worker-0", atMs: 1500 }] })).not.toEqual([]);
    expect(rules(three, shape({ deed: deed("suspend") }))).toEqual([]);
    expect(rules({ ...three, outages: [{ node: "workers-0", fromMs: 1200, toMs: 1300 }] })).toEqual([]);
    expect(rules({ ...three, outages: [{ node: "workers-1", fromMs: 1200, toMs: 1300 }] })).not.toEqual([]);
  });

  it("forgives a failure of a job whose machine was off, and of no other", () => {
    const failed = seen({ ends: ["Failed BackoffLimitExceeded"] });
    const outage = { node: "workers-0", fromMs: 1200, toMs: 1300 };
    expect(rules({ ...failed, outages: [outage] })).toEqual([]);
    expect(rules({ ...failed, outages: [{ ...outage, node: "workers-1" }] })).toEqual(["the outcome is a right one"]);
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

  it("lets a cancellation win that comes before the end, and none that comes after it", () => {
    const outcomes = (job: JobShape): readonly string[] => decideJobOutcomes(job, { nodeLost: false }).outcomes;
    expect(outcomes(shape({ deed: deed("cancel") }))).toEqual(["Failed Cancelled", "Succeeded"]);
    expect(outcomes(shape({ deed: deed("cancel", "cleaning-up") }))).toEqual(["Succeeded"]);
  });

  it("lets a job without patience fail at once when a machine of it was off", () => {
    const never = shape({ types: [{ ...WORKER, restartPolicy: "Never" }] });
    expect(decideJobOutcomes(never, { nodeLost: true }).outcomes).toContain("Failed PodFailed");
    expect(decideJobOutcomes(shape(), { nodeLost: true }).outcomes).not.toContain("Failed PodFailed");
  });
});

describe("what is to go", () => {
  const there = (): boolean => true;
  const gone = (): boolean => false;
  const ended = { name: "p", kind: "job", work: "j001", phase: "Succeeded" } as const;

  it("is every pod that runs, and of those that ended what the job's policy takes", () => {
    const running = shape({ cleanPodPolicy: "Running" });
    expect(podsToGo([ended], [running], there)).toEqual([]);
    expect(podsToGo([{ ...ended, phase: "Running" }], [running], there)).toEqual(["p"]);
    expect(podsToGo([ended], [shape({ cleanPodPolicy: "All" })], there)).toEqual(["p"]);
    expect(podsToGo([ended], [running], gone)).toEqual(["p"]);
    expect(podsToGo([{ ...ended, kind: "session" }], [running], there)).toEqual(["p"]);
  });

  it("is every service but those of jobs that keep all", () => {
    const service = { name: "j001", work: "j001" };
    expect(servicesToGo([service], [shape({ cleanPodPolicy: "None" })], there)).toEqual([]);
    expect(servicesToGo([service], [shape({ cleanPodPolicy: "None" })], gone)).toEqual(["service j001"]);
    expect(servicesToGo([service], [shape({ cleanPodPolicy: "All" })], there)).toEqual(["service j001"]);
  });

  it("is every job whose time is over or whose user deleted it", () => {
    expect(jobsToGo([shape(), shape({ name: "j002", ttlS: 1 })], there)).toEqual(["j002"]);
    expect(jobsToGo([shape({ deed: deed("delete") }), shape({ ttlS: 1 })], gone)).toEqual([]);
  });
});

describe("workOf", () => {
  it("finds the job in ids of gangs and of single members", () => {
    expect(workOf("j001-0123456789ab")).toBe("j001");
    expect(workOf("j001-0123456789ab--worker-3")).toBe("j001");
    expect(workOf("s001")).toBe("s001");
    expect(workOf("s001--0123abcd-2")).toBe("s001");
  });
});

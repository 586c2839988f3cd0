import { connectNats, serveMethods, type NatsBus } from "@muster/bus";
import { throwFault } from "@muster/faults";
import { JobService, muster as proto, ReservationService, SessionService } from "@muster/proto";
import { startTestNats, until, type TestNats } from "@muster/testkit";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { reachServices, type Reached } from "./reach.ts";
import { inProcess, type Ended } from "./in-process.ts";

const { RESERVATION_STATE_GRANTED, RESERVATION_STATE_WAITING } = proto.reservation.v1.ReservationState;
type Job = proto.job.v1.Job.$Properties;
type Key = proto.job.v1.JobKey.$Properties | null | undefined;

/** Jobs by kind and name, which tests change. Each long poll moves a job to its next state in `ways`. */
const jobs = new Map<string, Job>();
const ways = new Map<string, Job[]>();
/** Names of jobs with a long poll. */
const watched = new Set<string>();
/** The namespaces of requests about one job, by its name. */
const asked = new Map<string, Set<string>>();
const warnings: string[] = [];
/** The output of the members of \`again\` in each of their runs. */
const runs: string[] = [];
const manifests: unknown[] = [];
let server: TestNats;
let reached: Reached;
let bus: NatsBus;
const served = new AsyncDisposableStack();

beforeAll(async () => {
  server = await startTestNats();
  reached = await reachServices(server);
  bus = await connectNats({ url: server.url, token: server.token, name: "jobs" });
  const about = { version: "1.0.0", description: "for a test" };
  served.use(await serveMethods(bus, JobService, HANDLERS, about));
  served.use(await serveMethods(bus, ReservationService, LEDGER, about));
  served.use(await serveMethods(bus, SessionService, SESSIONS, about));
});
afterAll(async () => {
  await reached[Symbol.asyncDispose]();
  await served.disposeAsync();
  await bus[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});
beforeEach(() => {
  for (const each of [jobs, ways, watched, asked]) each.clear();
  warnings.length = 0;
  manifests.length = 0;
});

const START_MS = Date.UTC(2026, 0, 1);

function member(component: string, state: string, message = ""): proto.job.v1.JobMember.$Properties {
  const started = state !== "PENDING";
  return { component, pool: "workers", node: started ? `node-of-${component}` : "", state, message };
}

function condition(type: string, reason: string, message: string, second: number, isTrue = true) {
  return { type, reason, message, isTrue, lastTransitionMs: START_MS + second * 1000 };
}

const RESERVED = condition("MachinesReserved", "MachinesGranted", "2 machines are reserved", 1);

function job(name: string, state: string, more: Job = {}, kind = "Job"): Job {
  return {
    key: { kind, name, namespace: "default" },
    uid: `uid-${kind}-${name}`,
    revision: `${state}-${more.restarts ?? 0}`,
    state,
    members: [member("worker-0", "PENDING"), member("worker-1", "PENDING")],
    createdAtMs: START_MS,
    ownerId: `${name}-0123`,
    ...more,
  };
}

function keep(each: Job): Job {
  jobs.set(`${each.key?.kind}/${each.key?.name}`, each);
  return each;
}

function checkNamespace(field: string, namespace: string | null | undefined): void {
  if (!["", "default", "team-a", undefined].includes(namespace ?? undefined))
    throwFault({ code: "invalid_request", field, reason: `"${namespace}" is not served` });
}

function find(key: Key): Job {
  checkNamespace("key.namespace", key?.namespace);
  asked.set(key?.name ?? "", (asked.get(key?.name ?? "") ?? new Set()).add(key?.namespace ?? ""));
  const found = [...jobs.values()].filter(
    (each) => each.key?.name === key?.name && (key?.kind === "" || each.key?.kind === key?.kind),
  );
  if (found.length > 1) throwFault({ code: "invalid_request", field: "key.kind", reason: "is needed" });
  return found[0] ?? throwFault({ code: "not_found", kind: key?.kind || "job", id: key?.name ?? "" });
}

const HANDLERS = {
  submitJob: ({ manifestJson }: { manifestJson: string }) => {
    const manifest = JSON.parse(manifestJson) as { kind: string; metadata: { name: string; namespace?: string } };
    manifests.push(manifest);
    const { kind, metadata } = manifest;
    const key = { kind, namespace: "default", ...metadata };
    return Promise.resolve({ job: { ...keep(job(metadata.name, "QUEUED", { key }, kind)), manifestJson }, warnings });
  },
  checkJob: ({ manifestJson }: { manifestJson: string }) => {
    const { kind, metadata } = JSON.parse(manifestJson) as { kind: string; metadata: { name: string } };
    if (jobs.has(`${kind}/${metadata.name}`)) {
      const reason = `${kind} ${metadata.name} exists already`;
      return Promise.resolve({ problems: [{ field: "metadata.name", reason }], warnings });
    }
    const field = "spec.replicaSpecs.worker.template.spec.containers[0].name";
    return Promise.resolve({ problems: metadata.name === "wrong" ? [{ field, reason: "is no name" }] : [], warnings });
  },
  getJob: ({ key }: { key?: Key }) => Promise.resolve({ job: find(key) }),
  explainJob: ({ key }: { key?: Key }) => {
    if (key?.name?.startsWith("orph"))
      return Promise.resolve({
        explanation: { kind: "job", name: key.name, reasons: [{ code: "JOB_GONE", message: "its job is gone" }] },
      });
    const { state = "" } = find(key);
    const at = { kind: "job", name: key?.name ?? "", phase: state, sinceMs: START_MS, isOver: state === "SUCCEEDED" };
    return Promise.resolve({ explanation: { ...at, reasons: [{ code: "WHY", message: "for a reason" }] } });
  },
  watchJob: async (
    { key, afterRevision, waitMs }: { key?: Key; afterRevision: string; waitMs: number },
    { signal }: { signal: AbortSignal },
  ) => {
    watched.add(key?.name ?? "");
    const next = ways.get(key?.name ?? "")?.shift();
    if (next !== undefined) keep(next);
    const endMs = performance.now() + waitMs;
    await until(
      "the job changes, the wait is over, or the caller has gone",
      () => signal.aborted || jobs.size === 0 || find(key).revision !== afterRevision || performance.now() > endMs,
    );
    return { job: find(key) };
  },
  // A page contains one job, so that the CLI must request the next.
  listJobs: ({ continue: from, namespace, labelSelector }: ListRequest) => {
    checkNamespace("namespace", namespace);
    const keys = [...jobs.keys()].filter((key) => labelSelector === "" || key.endsWith("/net"));
    const index = from === "" ? 0 : keys.indexOf(from);
    const found = jobs.get(keys[index] ?? "");
    return Promise.resolve({
      jobs: found === undefined ? [] : [found],
      continue: keys[index + 1] ?? "",
      namespace: "default",
      podsLeft: [{ ownerId: "orph-0123", job: "orph", pod: "default/orph-worker-0", node: "node-7" }],
    });
  },
  cancelJob: ({ key }: { key?: Key }) => Promise.resolve({ job: find(key) }),
  suspendJob: ({ key, suspended }: { key?: Key; suspended: boolean }) =>
    Promise.resolve({ job: { ...find(key), state: suspended ? "SUSPENDED" : "QUEUED" } }),
  listJobEvents: ({ key }: { key?: Key }) => {
    const object = `Pod/${find(key).key?.name}-worker-0`;
    return Promise.resolve({
      events: [
        { atMs: START_MS + 1500, type: "Normal", reason: "Started", message: "Container started", count: 1, object },
        { atMs: START_MS + 1600, type: "Warning", reason: "BackOff", message: "again", count: 3, object },
      ],
    });
  },
  getJobLogs: ({ key, component, offset, run, waitMs }: LogRequest) => {
    if (key?.name === "again") return readRuns({ offset, run, waitMs });
    const id = `${find(key).key?.name}/${component}`;
    if (component === "worker-1" || component.startsWith("lost-"))
      return throwFault({ code: "not_found", kind: "log", id });
    const chunk = new TextEncoder().encode(`this is ${id}\n`).slice(offset, offset + 9);
    return Promise.resolve({ chunk, nextOffset: offset + chunk.length, complete: chunk.length < 9 });
  },
};

type ListRequest = { continue: string; namespace: string; labelSelector: string };
type LogRequest = { key?: Key; component: string; offset: number; run: string; waitMs: number };

/** Returns at most seven bytes; run `r2` follows `r1`, and the last run ends with the job. */
function readRuns({ offset, run, waitMs }: Pick<LogRequest, "offset" | "run" | "waitMs">) {
  expect(waitMs).toBeGreaterThan(0);
  const at = run === "" ? 0 : Number(run.slice(1)) - 1;
  const isOver = offset >= (runs[at]?.length ?? 0);
  const [now, from] = isOver && at + 1 < runs.length ? [at + 1, 0] : [at, offset];
  const chunk = new TextEncoder().encode(runs[now]).slice(from, from + 7);
  const complete = isOver && now === at;
  return Promise.resolve({
    chunk,
    nextOffset: from + chunk.length,
    complete,
    run: `r${now + 1}`,
    pod: "again-worker-0",
  });
}

/** The gang of `grown` has its machines, and the member by which it grew waits. */
const LEDGER = {
  reserve: () => throwFault({ code: "internal", operation: "reserve" }),
  checkReservation: () => throwFault({ code: "internal", operation: "checkReservation" }),
  unreserve: () => throwFault({ code: "internal", operation: "unreserve" }),
  acceptPreemption: () => throwFault({ code: "internal", operation: "acceptPreemption" }),
  requeue: () => throwFault({ code: "internal", operation: "requeue" }),
  limitConcurrency: () => throwFault({ code: "internal", operation: "limitConcurrency" }),
  listDemand: () => throwFault({ code: "internal", operation: "listDemand" }),
  listMachines: () => throwFault({ code: "internal", operation: "listMachines" }),
  listQueues: () => throwFault({ code: "internal", operation: "listQueues" }),
  listUsage: () => throwFault({ code: "internal", operation: "listUsage" }),
  getReservation: () => throwFault({ code: "internal", operation: "getReservation" }),
  listPools: () => Promise.resolve({ pools: [] }),
  listReservations: () =>
    Promise.resolve({
      reservations: [
        reservation("grown-0123", RESERVATION_STATE_GRANTED),
        reservation("grown-0123--worker-1", RESERVATION_STATE_WAITING),
      ],
    }),
  explainReservation: ({ owner }: proto.reservation.v1.ExplainReservationRequest) => {
    if (owner?.kind === "job" && owner.id === "grown-0123")
      return Promise.resolve({ reservation: reservation(owner.id, RESERVATION_STATE_GRANTED) });
    if (owner?.kind === "job" && (owner.id === "grown-0123--worker-1" || owner.id === "waits-0123")) {
      const message = "pool workers has 0 machines free, 1 is needed";
      return Promise.resolve({
        reservation: reservation(owner.id, RESERVATION_STATE_WAITING),
        code: "POOL_AVAILABILITY",
        message,
      });
    }
    return throwFault({ code: "not_found", kind: "reservation", id: owner?.id ?? "" });
  },
};

/** One session exists, and a job has the same name. */
const SESSIONS = {
  explainSession: ({ name }: { name: string }) => throwFault({ code: "not_found", kind: "session", id: name }),
  submitSession: () => throwFault({ code: "internal", operation: "submitSession" }),
  watchSession: () => throwFault({ code: "internal", operation: "watchSession" }),
  cancelSession: ({ name }: { name: string }) => throwFault({ code: "not_found", kind: "session", id: name }),
  deleteSession: () => throwFault({ code: "internal", operation: "deleteSession" }),
  checkSession: () => throwFault({ code: "internal", operation: "checkSession" }),
  getLogs: () => throwFault({ code: "internal", operation: "getLogs" }),
  listSessions: () => Promise.resolve({ sessions: [] }),
  getSession: ({ name }: { name: string }) =>
    name === "both"
      ? Promise.resolve({ session: { name } })
      : throwFault({ code: "not_found", kind: "session", id: name }),
};

function reservation(
  id: string,
  state: proto.reservation.v1.ReservationState,
): proto.reservation.v1.Reservation.$Properties {
  return { id: `r-${id}`, owner: { kind: "job", id }, state, needs: [{ component: "worker-1", pool: "workers" }] };
}

function muster(line: string, file = ""): Promise<Ended> {
  return inProcess(line.split(" "), { url: reached.url, token: reached.token, file });
}

function document(name: string, kind = "Job"): string {
  const apiVersion = kind === "Job" ? "muster.dev/v1" : "kubeflow.org/v1";
  return `apiVersion: ${apiVersion}
kind: ${kind}
metadata: { ${name.endsWith("-") ? "generateName" : "name"}: ${name}, labels: { team: a } }
spec: { replicaSpecs: { worker: { replicas: 2, template: { spec: { containers: [{ name: main }] } } } } }
`;
}

const GRANTED = job("train", "STARTING", { conditions: [RESERVED] });
const RUNS = job("train", "RUNNING", {
  conditions: [RESERVED, condition("Running", "JobRunning", "pods of the job are running", 2)],
  members: [member("worker-0", "RUNNING"), member("worker-1", "RUNNING")],
});
const RESTARTED = { ...RUNS, revision: "again", restarts: 2 };
const DONE = job("train", "SUCCEEDED", {
  conditions: [RESERVED, condition("Succeeded", "JobSucceeded", "every worker completed", 9)],
  members: [member("worker-0", "SUCCEEDED"), member("worker-1", "COMPLETED")],
  finishedAtMs: START_MS + 9000,
  restarts: 2,
});

it("follows a job to its end: phases, members and machines, failures, result", async () => {
  ways.set("train", [GRANTED, RUNS, RESTARTED, DONE]);
  warnings.push("spec.x is ignored");
  const { code, out, err } = await muster("run -", document("train"));
  expect(err.map((line) => line.replace(/^ *\S+ {2}train {2}/, ""))).toEqual([
    "warning: job train: spec.x is ignored",
    "QUEUED",
    "STARTING  2 machines are reserved",
    "RUNNING  pods of the job are running",
    "worker-0  RUNNING  on node-of-worker-0",
    "worker-1  RUNNING  on node-of-worker-1",
    "RESTARTING  2 failures",
    "RUNNING  pods of the job are running",
    "worker-0  SUCCEEDED  on node-of-worker-0",
    "worker-1  COMPLETED  on node-of-worker-1",
    "SUCCEEDED  every worker completed",
  ]);
  expect(out).toEqual(["job train SUCCEEDED after 9.0s", "warning: MANIFEST: spec.x is ignored"]);
  expect(code).toBe(0);
});

it("ends with 1 when the job fails, prints the reason, and shows the log of the failed member", async () => {
  const failed = condition("Failed", "BackoffLimitExceeded", "3 failures, and backoffLimit is 2", 5);
  ways.set("train", [
    job("train", "FAILED", {
      conditions: [RESERVED, failed],
      members: [member("worker-0", "FAILED", "exit code 137"), member("worker-1", "PENDING")],
      finishedAtMs: START_MS + 5000,
    }),
  ]);
  const { code, out, err } = await muster("run -", document("train"));
  expect(out).toEqual(["job train FAILED after 5.0s: BackoffLimitExceeded: 3 failures, and backoffLimit is 2"]);
  expect(err).toContain("last lines of worker-0 (`muster logs job/train worker-0` shows all):");
  expect(err).toContain("  this is train/worker-0");
  expect(code).toBe(1);
});

it("shows the parts of machines that members have or wait for, also to programs", async () => {
  const shared = { requests: { cpu: 500, memory: 2 ** 30 } };
  const members = [member("ps-0", "RUNNING"), member("ps-1", "PENDING")].map((each) => ({ ...each, shared }));
  keep(job("train", "RUNNING", { conditions: [RESERVED], members: [...members, member("worker-0", "RUNNING")] }));
  const { out } = await muster("describe job/train");
  const [header = "", ...rows] = out.slice(out.findIndex((line) => line.startsWith("COMPONENT")));
  const partOf = (line = ""): string => line.slice(header.indexOf("PART"), header.indexOf("ADDRESS")).trim();
  expect(rows.slice(0, 3).map(partOf)).toEqual(["500m cpu, 1Gi", "500m cpu, 1Gi", "whole"]);
  const json = await muster("get job/train -o json");
  const { components } = JSON.parse(json.out.join("\n")) as { components: { name: string; shared?: object }[] };
  expect(components.map((each) => [each.name, each.shared])).toEqual([
    ["ps-0", { cpu: "500m", memory: "1Gi" }],
    ["ps-1", { cpu: "500m", memory: "1Gi" }],
    ["worker-0", undefined],
  ]);
});

it("names the namespace of a job in the manifest and in every request", async () => {
  keep(RUNS);
  for (const line of [
    "get job/train -n default",
    "-n default describe job train",
    "cancel job/train --namespace default",
  ])
    expect(await muster(line)).toMatchObject({ code: 0 });
  for (const line of ["get jobs -n other", "explain job/train -n other", "wait job/train --for delete -n other"]) {
    const { code, err } = await muster(line);
    expect([code, err.join()]).toEqual([4, expect.stringContaining('"other" is not served')]);
  }
  const { code } = await muster("run - --detach -n default", document("named"));
  expect([code, manifests]).toMatchObject([0, [{ metadata: { name: "named", namespace: "default" } }]]);
});

it("lists jobs of the namespace of the job-controller, or with -A of every one", async () => {
  for (const namespace of ["default", "team-a"]) {
    const name = `of-${namespace}`;
    keep(job(name, "QUEUED", { key: { kind: "Job", name, namespace } }));
  }
  const own = await muster("get jobs");
  expect(own.out.slice(1).map((row) => row.split(/\s+/)[0])).toEqual(["of-default"]);
  const all = await muster("get jobs -A");
  expect(all.out.map((row) => row.split(/\s+/).slice(0, 3))).toEqual([
    ["NAME", "PHASE", "NAMESPACE"],
    ["of-default", "QUEUED", "default"],
    ["of-team-a", "QUEUED", "team-a"],
  ]);
  const both = await muster("get jobs -A -n default");
  expect(both.code).toBe(2);
  const logs = await muster("logs job/of-default worker-0 -A");
  expect([logs.code, logs.err[0]]).toEqual([2, "error: --all-namespaces is for `get jobs`, not for `logs`"]);
});

it("lists jobs of a job-controller of the last release, whose keys have no namespace", async () => {
  keep(job("of-last-release", "QUEUED", { key: { kind: "Job", name: "of-last-release" } }));
  for (const line of ["get jobs", "get jobs -A"])
    expect((await muster(line)).out.at(-1)?.split(/\s+/)[0]).toBe("of-last-release");
});

it("follows a job in the namespace that its file names", async () => {
  const elsewhere = document("far").replace("labels:", "namespace: team-a, labels:");
  const { conditions, members, finishedAtMs } = DONE;
  const key = { kind: "Job", name: "far", namespace: "team-a" };
  ways.set("far", [job("far", "SUCCEEDED", { key, conditions, members, finishedAtMs })]);
  expect(await muster("run -", elsewhere)).toMatchObject({ code: 0 });
  expect(asked.get("far")).toEqual(new Set(["team-a"]));
});

it("refuses a namespace that differs from the file's, and a namespace for a kind that has none", async () => {
  const elsewhere = document("train").replace("labels:", "namespace: other, labels:");
  const differs = await muster("run - -n default", elsewhere);
  expect(differs.err.join()).toContain('metadata.namespace: is "other", and --namespace is "default"');
  const session = await muster("get sessions -n default");
  expect([session.code, session.err[0]]).toEqual([2, "error: sessions have no namespace"]);
  const pools = await muster("doctor -n default");
  expect([pools.code, pools.err[0]]).toEqual([2, "error: --namespace is for jobs, and `doctor` has none"]);
  expect(manifests).toEqual([]);
});

it.each(["Job", "TFJob"])(
  "shows a %s that was cancelled as CANCELLED, though its condition is Failed",
  async (kind) => {
    const conditions = [RESERVED, condition("Failed", "Cancelled", "its cancellation was requested", 5)];
    ways.set("train", [job("train", "FAILED", { conditions, finishedAtMs: START_MS + 5000 }, kind)]);
    const { code, out } = await muster("run -", document("train", kind));
    const noun = kind.toLowerCase();
    expect([code, out]).toEqual([1, [`${noun} train CANCELLED after 5.0s: its cancellation was requested`]]);
    expect((await muster(`get ${noun}s`)).out.join()).toMatch(/train +CANCELLED/);
    expect((await muster(`wait ${noun}/train --for=condition=Failed`)).code).toBe(0);
  },
);

it.each(["TFJob", "PyTorchJob", "MPIJob", "JAXJob"])(
  "sends a %s as it is, under the name that was made",
  async (kind) => {
    const { code, out } = await muster("run - --detach", document("net-", kind));
    expect(code).toBe(0);
    const [manifest] = manifests as { metadata: { name: string } }[];
    const name = manifest?.metadata.name ?? "";
    expect(name).toMatch(/^net-[a-z0-9]{5}$/);
    expect(manifest).toMatchObject({ kind, metadata: { labels: { team: "a" } }, spec: { replicaSpecs: {} } });
    expect(manifest?.metadata).not.toHaveProperty("generateName");
    const noun = kind.toLowerCase();
    expect(out).toEqual([`${noun} ${name} submitted; \`muster get ${noun} ${name}\` shows it`]);
  },
);

it("submits nothing when a field of a Job is unknown, and reports its position", async () => {
  const { code, err } = await muster("run -", document("train").replace("replicas:", "replica:"));
  expect(code).toBe(2);
  expect(err[0]).toBe('error: stdin:4:35: spec.replicaSpecs.worker: unknown field "replica"; did you mean "replicas"?');
  expect(manifests).toEqual([]);
});

it.each<[line: string, out: RegExp]>([
  [
    "get jobs",
    /^NAME +PHASE +TYPE +COMPLETED +FAILURES +AGE +TOOK +WHY\n[^]*net +RUNNING +TFJob +0\/2 +0[^]*train +SUCCEEDED +Job +2\/2 +2/,
  ],
  ["get tfjobs", /^NAME[^\n]*\nnet [^\n]*$/],
  ["get jobs -l team=a,!tier", /^NAME[^\n]*\nnet [^\n]*$/],
  ["get jobs --selector=team=a", /^NAME[^\n]*\nnet [^\n]*$/],
  ["get mpijobs -l team=a", /^no mpijobs match team=a$/],
  ["__complete -- get jobs --sel", /^--selector$/],
  ["get job/train", /train +SUCCEEDED +Job +2\/2/],
  ["get job train", /train +SUCCEEDED +Job +2\/2/],
  [
    "describe job train",
    /owner +job\/train-0123[^]*SUCCEEDED[^]*worker-1 +worker +workers +node-of-worker-1[^]*job train SUCCEEDED/,
  ],
  ["describe job/train", /owner +job\/train-0123/],
  ["__complete -- get job/tr", /^job\/train$/],
  ["cancel train", /^job train was already over; nothing changed$/],
  ["cancel net", /^tfjob net is being cancelled/],
  [
    "events job/train",
    /QUEUED[^]*STARTING[^]*Started +Pod\/train-worker-0: Container started[^]*BackOff +Warning[^]*\(x3\)[^]*SUCCEEDED/,
  ],
  ["events -f job/train", /QUEUED[^]*STARTING[^]*Started[^]*SUCCEEDED/],
  ["events jobs", /train +0\.0s +QUEUED/],
  ["cancel job/train", /^job train was already over; nothing changed$/],
  ["explain job/train", /^job train SUCCEEDED since [^]*: WHY\n {2}for a reason$/],
  ["explain job/waits", /^job waits QUEUED for \S+: WHY\n {2}for a reason$/],
  ["explain job/orph", /^job orph: JOB_GONE\n {2}its job is gone$/],
  ["explain job/grown-0123", /^job\/grown-0123 granted for [^]*: GRANTED/],
  ["__complete -- get jobs tr", /^train$/],
  ["__complete -- cancel job/tr", /^job\/train$/],
  ["__complete -- logs job/train w", /^worker-0\nworker-1$/],
  ["__complete -- get jo", /^jobs\njob$/],
  ["__complete -- wait job/train --for condition=Su", /^condition=Suspended\ncondition=Succeeded$/],
  ["schema job", /"title": "Muster job"/],
])("muster %s", async (line, out) => {
  keep(DONE);
  keep(job("net", "RUNNING", {}, "TFJob"));
  keep(job("waits", "QUEUED"));
  keep({ ...RUNS, key: { kind: "Job", name: "grown" }, ownerId: "grown-0123" });
  const ended = await muster(line);
  expect(ended.err).toEqual([]);
  expect(ended.out.join("\n").replaceAll("\n\n", "\n").trimEnd()).toMatch(out);
  expect(ended.code).toBe(0);
});

it.each([
  ["get job/train train", 2, 'error: "job/train" has a name already: "train" is one too many'],
  ["describe job", 2, "error: the name of the job is missing"],
  ["cancel both", 2, "error: several items have the name both: session/both, job/both"],
  ["cancel absent", 4, "error: no session and no job is called absent"],
])("muster %s is refused", async (line, code, err) => {
  keep(job("both", "RUNNING"));
  const ended = await muster(line);
  expect(ended).toMatchObject({ code, out: [] });
  expect(ended.err[0]).toBe(err);
});

it.each([
  ["suspend training", "job training is suspended; `muster describe job training` shows its progress"],
  ["resume job/training", "job training is resumed; `muster describe job training` shows its progress"],
  ["suspend job/training -o json", '"phase": "SUSPENDED"'],
])("muster %s", async (line, expected) => {
  keep(job("training", "RUNNING"));
  const ended = await muster(line);
  expect(ended.err).toEqual([]);
  expect(ended.out.join("\n")).toContain(expected);
});

it("muster suspend NAME refuses a session, which would lose its progress", async () => {
  expect(await muster("suspend session/both")).toMatchObject({
    code: 2,
    err: [
      "error: a session cannot be suspended: it would lose its progress",
      "hint: `muster cancel both` ends it; submit it again later",
    ],
  });
});

it("muster cancel ID asks whether the lease is meant", async () => {
  expect((await muster("cancel 4711-1")).err).toContain("hint: did you mean lease/4711-1?");
});

it.each(["logs", "explain", "events"])("muster %s NAME asks whether the job of this name is meant", async (command) => {
  keep(job("training", "RUNNING"));
  keep(job("net", "RUNNING", {}, "TFJob"));
  expect(await muster(`${command} training`)).toMatchObject({
    code: 4,
    err: ["error: session training does not exist", "hint: did you mean job/training?"],
  });
  expect((await muster(`${command} net`)).err).toContain("hint: did you mean tfjob/net?");
  expect((await muster(`${command} 4711-1`)).err).toContain("hint: did you mean lease/4711-1?");
  expect((await muster(`${command} absent`)).err).toContain("hint: `muster get sessions` shows those that exist");
});

it("lists in one line many members that have no log", async () => {
  const names = Array.from({ length: 50 }, (_, index) => `lost-${index}`);
  keep(job("large", "RUNNING", { members: names.map((name) => member(name, "PENDING")) }));
  const { err } = await muster("logs job/large");
  expect(err).toEqual(["note: 50 components have no log: lost-0, lost-1, lost-2 and 47 more"]);
});

it("finds a job of any kind by job/NAME, prefers Muster's own, and finds each by its kind", async () => {
  keep(job("net", "RUNNING", {}, "TFJob"));
  const kindOf = async (line: string): Promise<unknown> => {
    const { out } = await muster(`${line} -o json`);
    return (JSON.parse(out.join("")) as { kind: unknown }).kind;
  };
  expect(await kindOf("get job net")).toBe("tfjob");
  keep(job("net", "RUNNING"));
  expect(await kindOf("get job net")).toBe("job");
  expect(await kindOf("get tfjob net")).toBe("tfjob");
  jobs.delete("Job/net");
  keep(job("net", "RUNNING", {}, "MPIJob"));
  expect(await muster("get job net")).toMatchObject({ code: 4, err: ["error: key.kind: is needed"] });
});

it.each(["run -", "run --dry-run -"])(
  "%s says where the job controller finds a document wrong, and submits none of the others",
  async (line) => {
    const ended = await muster(line, `${document("right")}---\n${document("wrong")}`);
    expect(ended.err).toEqual([
      "error: stdin:9:89: spec.replicaSpecs.worker.template.spec.containers[0].name: is no name",
      "error: 1 problem found",
      "hint: nothing was submitted; examples/ has valid files",
    ]);
    expect(ended.code).toBe(2);
    expect(manifests).toEqual([]);
  },
);

it.each([
  [
    "over",
    "SUCCEEDED",
    "choose another name, or free this one. job/train is over, and still exists: `kubectl delete jobs.muster.dev train` deletes it, or its ttlSecondsAfterFinished does",
  ],
  [
    "not over",
    "RUNNING",
    "choose another name, or free this one. job/train is not over: `muster cancel job/train` ends it",
  ],
])("advises on a name in use by a job that is %s", async (_title, state, hint) => {
  keep(job("train", state, { finishedAtMs: state === "RUNNING" ? 0 : START_MS + 9000 }));
  const { code, err } = await muster("run -", document("train"));
  expect(err).toEqual([
    expect.stringMatching(/metadata\.name: Job train exists already$/) as string,
    "error: 1 problem found",
    `hint: nothing was submitted; ${hint}`,
  ]);
  expect(code).toBe(2);
});

it("prints the warnings of a dry run", async () => {
  warnings.push("spec.x is ignored");
  const { code, err } = await muster("run --dry-run -", document("train"));
  expect(err).toEqual(["warning: job train: spec.x is ignored"]);
  expect(code).toBe(0);
  expect(manifests).toEqual([]);
});

it("prints the log of a member", async () => {
  keep(DONE);
  const { code, out } = await muster("logs job/train worker-0");
  expect(out.join("")).toBe("this is train/worker-0\n");
  expect(code).toBe(0);
});

it("follows the log of a member across its runs, and marks the beginning of each", async () => {
  keep({ ...RUNS, key: { kind: "Job", name: "again" } });
  runs.splice(0, Infinity, "first words\n", "second\n");
  const alone = await muster("logs -f job/again worker-0");
  expect(alone.out.join("")).toBe("first words\nsecond\n");
  const note = "note: worker-0 has ended and runs again; its log continues with that of pod again-worker-0";
  expect(alone.err).toEqual([note]);
  runs.splice(0, Infinity, "first words", "second\n");
  const all = await muster("logs -f job/again");
  expect(
    all.out
      .join("")
      .split("\n")
      .filter((line) => line.startsWith("worker-0")),
  ).toEqual(["worker-0 | first words", "worker-0 | second"]);
  expect(all.code).toBe(0);
});

const NO_LUCK = job("train", "FAILED", {
  conditions: [RESERVED, condition("Failed", "PodFailed", "worker-0 ended with 3", 5)],
  finishedAtMs: START_MS + 5000,
});

it.each<[goal: string, jobs: Job[], code: number, out: RegExp, err: string[]]>([
  ["--for=condition=Succeeded", [GRANTED, RUNS, DONE], 0, /^job\/train condition met$/, []],
  ["--for=condition=succeeded --timeout 0s", [DONE], 0, /^job\/train condition met$/, []],
  ["--for condition=Running -o json", [GRANTED, RUNS], 0, /^{[^]*"phase": "RUNNING"[^]*}$/, []],
  [
    "--for=condition=Succeeded --timeout 5m",
    [GRANTED, NO_LUCK],
    1,
    /^$/,
    [
      "error: condition Succeeded can no longer be met: job train is FAILED: PodFailed: worker-0 ended with 3",
      "hint: `muster explain job/train` shows why",
    ],
  ],
  [
    "--for=condition=Succeeded --timeout 100ms -o json",
    [{ ...RUNS, waitingBecause: "worker-1 does not start" }],
    1,
    /^{[^]*"phase": "RUNNING"[^]*}$/,
    [
      "error: timed out after 100ms waiting for condition Succeeded: job train is RUNNING: worker-1 does not start",
      "hint: `muster explain job/train` shows why",
    ],
  ],
  [
    "--for=condition=Complete",
    [RUNS],
    2,
    /^$/,
    [
      'error: a job has no condition "Complete"',
      "hint: it may have Created, MachinesReserved, PodNamesTaken, PodsWaiting, SpecUnreadable, Preempted, Running, Restarting, Suspended, Succeeded, Failed",
    ],
  ],
  [
    "--for=deleted",
    [RUNS],
    2,
    /^$/,
    [
      "error: option '--for <condition>' argument 'deleted' is invalid. It is condition=TYPE, condition=TYPE=false, or delete.",
      "hint: add --help for the options and examples of a command",
    ],
  ],
])("muster wait job/train %s", async (goal, [start, ...later], code, out, err) => {
  if (start !== undefined) keep(start);
  ways.set("train", later);
  const ended = await muster(`wait job/train ${goal}`);
  expect(ended.err.join("\n").split(/\n+/).filter(Boolean)).toEqual(err);
  expect(ended.out.join("\n")).toMatch(out);
  expect(ended.code).toBe(code);
});

it("waits for the end of this job, and not of a later job of the same name", async () => {
  keep(DONE);
  ways.set("train", [{ ...GRANTED, uid: "another" }]);
  expect(await muster("wait job/train --for=delete")).toEqual({ code: 0, out: ["job/train condition met"], err: [] });
  jobs.clear();
  expect(await muster("wait job/train --for=delete")).toEqual({ code: 0, out: ["job/train condition met"], err: [] });
  expect(await muster("wait job/train --for=condition=Failed")).toMatchObject({
    code: 4,
    err: ["error: job train does not exist", "hint: `muster get jobs` shows those that exist"],
  });
  keep(RUNS);
  watched.clear();
  const waiting = muster("wait job/train --for=condition=Failed");
  await until("the job is watched", () => watched.has("train"));
  jobs.clear();
  expect(await waiting).toEqual({
    code: 1,
    out: [],
    err: ["error: job train was deleted before it met condition Failed"],
  });
});

it("reports a job, a member or a log that does not exist", async () => {
  keep(DONE);
  expect(await muster("get tfjob train")).toMatchObject({
    code: 4,
    err: ["error: TFJob train does not exist", "hint: `muster get jobs` shows those that exist"],
  });
  expect(await muster("logs job/train worker-7")).toMatchObject({
    code: 2,
    err: ["error: job train has no component worker-7", 'hint: did you mean "worker-0"? it has worker-0, worker-1'],
  });
  // The log was deleted with its pod, so it can never appear.
  expect(await muster("logs job/train worker-1")).toMatchObject({
    code: 4,
    err: ["error: worker-1 has no log: log train/worker-1 does not exist"],
  });
});

it.each<[line: string, error: string]>([
  ["get jobs -l team=", "ok"],
  [
    "get jobs -l -x=1",
    "error: option '-l, --selector <labels>' argument '-x=1' is invalid. \"-x=1\" is not a label selector: ",
  ],
  ["get sessions -l team=a", "error: sessions have no labels"],
  ["get job train -l team=a", "error: --selector is for a list, not for one name"],
])("checks the selector: muster %s", async (line, error) => {
  keep(job("net", "RUNNING", {}, "TFJob"));
  const { code, err } = await muster(line);
  expect(code === 0 ? "ok" : err[0]?.slice(0, error.length)).toBe(error);
  if (error !== "ok") expect(code).toBe(2);
});

import { connectNats, serveMethods, type Handlers, type NatsBus } from "@muster/bus";
import { throwFault } from "@muster/faults";
import { JobService, muster as wire, ReservationService } from "@muster/proto";
import { startTestNats, type TestNats } from "@muster/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { inProcess } from "./in-process.ts";

const ABOUT = { version: "9.8.7", description: "for a test" };
const GPU = "nvidia.com/gpu";
const { RESERVATION_STATE_GRANTED, RESERVATION_STATE_WAITING } = wire.reservation.v1.ReservationState;

const gpus = (count: number) => [{ pool: "h100", amounts: { [GPU]: count } }];
const leaf = { parent: "company", weightMilli: 1000, strategy: "BestEffortFIFO", stopPolicy: "None" };

/** The queues are sorted by name, as the ledger lists them. */
const QUEUES: readonly wire.reservation.v1.QueueState.$Properties[] = [
  {
    queue: { name: "company", weightMilli: 1000, strategy: "BestEffortFIFO", stopPolicy: "None" },
    ...{ used: gpus(10), quota: gpus(10), problem: "NOT_A_LEAF" },
  },
  {
    queue: {
      ...{ ...leaf, name: "team-a", maxPriority: 100 },
      namespaces: {
        matchLabels: { "kubernetes.io/metadata.name": "default" },
        matchExpressions: [
          { key: "tier", operator: "In", values: ["x", "y"] },
          { key: "old", operator: "DoesNotExist" },
        ],
      },
      quotas: [{ pool: "h100", resources: [{ resource: GPU, nominal: 8 }] }],
    },
    ...{ used: gpus(10), quota: gpus(8), borrowed: gpus(2), pending: 1, admitted: 1, shareMillionths: 200_000 },
  },
  {
    queue: {
      ...{ ...leaf, name: "team-b", stopPolicy: "Hold" },
      quotas: [{ pool: "h100", resources: [{ resource: GPU, nominal: 4, borrowingLimit: 4, lendingLimit: 2 }] }],
    },
    ...{ quota: gpus(4), problem: "HELD" },
  },
];

const WAITING: wire.reservation.v1.Reservation.$Properties = {
  id: "r-2",
  owner: { kind: "job", id: "train-2" },
  state: RESERVATION_STATE_WAITING,
  createdAtMs: Date.now(),
  queue: "team-a",
  because: {
    ...{ code: "WAITING_FOR_QUOTA", queue: "team-a" },
    quota: { queue: "team-a", pool: "h100", resource: GPU, requested: 4, available: 0 },
  },
};
const RESERVATIONS: readonly wire.reservation.v1.Reservation.$Properties[] = [
  {
    ...{ id: "r-1", owner: { kind: "job", id: "train-1" }, state: RESERVATION_STATE_GRANTED, queue: "team-a" },
    ...{ createdAtMs: Date.now(), grantedAtMs: Date.now(), use: gpus(10) },
    machines: [{ component: "worker-0", pool: "h100", node: "n-1" }],
  },
  WAITING,
  { id: "r-3", owner: { kind: "session", id: "bench" }, state: RESERVATION_STATE_WAITING, createdAtMs: Date.now() },
];
const EXPLANATION = { reservation: WAITING, code: "WAITING_FOR_QUOTA", message: "it can get 0 now" };

const notAsked = (): never => throwFault({ code: "internal", operation: "not asked for here" });

const LEDGER: Handlers<typeof ReservationService> = {
  reserve: notAsked,
  checkReservation: notAsked,
  unreserve: notAsked,
  acceptPreemption: notAsked,
  requeue: notAsked,
  limitConcurrency: notAsked,
  getReservation: notAsked,
  listDemand: notAsked,
  listMachines: notAsked,
  listUsage: notAsked,
  explainReservation: ({ owner }) =>
    owner?.kind === "batch-job"
      ? throwFault({ code: "not_found", kind: "reservation", id: owner.id })
      : Promise.resolve(EXPLANATION),
  listReservations: () => Promise.resolve({ reservations: [...RESERVATIONS] }),
  listPools: () => Promise.resolve({ pools: [{ name: "h100", capacity: 2, allocatable: { [GPU]: 8 } }] }),
  // A page contains one queue, so that the command must request the next.
  listQueues: ({ continue: after }) => {
    const index = after === "" ? 0 : QUEUES.findIndex(({ queue }) => queue?.name === after) + 1;
    const page = QUEUES.slice(index, index + 1);
    return Promise.resolve({
      queues: page,
      continue: index + 1 < QUEUES.length ? (page[0]?.queue?.name ?? "") : "",
    });
  },
};

const PAUSE =
  "its pods were not ready in time, 1 time in a row; its machines are requested again at 2026-01-01T00:00:00Z";

const JOBS: Pick<Handlers<typeof JobService>, "explainJob"> = {
  explainJob: ({ key }) =>
    key?.kind === "batch-job"
      ? explainPause(key)
      : Promise.resolve({
          explanation: {
            ...{ kind: "job", name: "train", phase: "QUEUED", sinceMs: Date.now() },
            reasons: [{ code: EXPLANATION.code, message: EXPLANATION.message, next: "wait" }],
            reservation: EXPLANATION,
          },
        }),
};

/** The job-controller knows one Job of Kubernetes, in the namespace ai. */
function explainPause({ kind, name, namespace }: wire.job.v1.JobKey) {
  const isId = name === "ai-train-0a1b2c3d4e5f" && (namespace === "" || namespace === "ai");
  if (!isId && (name !== "train" || namespace !== "ai")) return throwFault({ code: "not_found", kind, id: name });
  const reasons = [{ code: "READY_TIMEOUT", message: PAUSE, next: "correct it" }];
  return Promise.resolve({ explanation: { kind, name, phase: "", sinceMs: 0, reasons } });
}

let server: TestNats;
let bus: NatsBus;
const served = new AsyncDisposableStack();
beforeAll(async () => {
  server = await startTestNats();
  bus = await connectNats({ url: server.url, token: server.token, name: "services" });
  served.use(await serveMethods(bus, ReservationService, LEDGER, ABOUT));
  const jobs = { ...JobService, methods: { explainJob: JobService.methods.explainJob } };
  served.use(await serveMethods(bus, jobs, JOBS, ABOUT));
});
afterAll(async () => {
  await served.disposeAsync();
  await bus[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});

const muster = (...args: readonly string[]) => inProcess(args, { url: server.url, token: server.token });

it.each([["queues"], ["get", "queues"], ["get", "mq"]])("muster %s %s lists the trees", async (...args) => {
  const { code, out } = await muster(...args);
  expect(out).toEqual([
    "QUEUE     POOL  USE       GPU        PENDING  ADMITTED  SHARE",
    "company   h100  ########  10/10      0        0         0",
    "  team-a  h100  ######++  10/8 (+2)  1        1         0.2",
    "  team-b  h100  ........  0/4        0        0         0",
    "",
    "team-b: HELD: spec.stopPolicy is Hold",
    `  next: \`kubectl patch queue team-b --type=merge --patch '{"spec":{"stopPolicy":"None"}}'\``,
  ]);
  expect(code).toBe(0);
});

it.each([
  ["get", "queue", "team-a"],
  ["describe", "queue/team-a"],
])("muster %s %s shows the quotas, the waiting requests and the machines of a queue", async (...args) => {
  const { code, out } = await muster(...args);
  const text = out.join("\n");
  expect(text).toMatch(/^max priority +100$/m);
  expect(text).toMatch(/^namespaces +kubernetes.io\/metadata.name=default,tier in \(x,y\),!old$/m);
  expect(text).toMatch(/^h100 +nvidia.com\/gpu +8 +no limit +all +10 +2 +0$/m);
  expect(text).toMatch(/^job\/train-2 +1 +0 .* WAITING_FOR_QUOTA h100: 4 nvidia.com\/gpu needed, 0 available$/m);
  expect(text).toMatch(/^job\/train-1 +1 .* h100: 10 nvidia.com\/gpu$/m);
  expect(text).not.toContain("bench");
  expect(code).toBe(0);
});

it("prints queues for programs", async () => {
  const { out } = await muster("get", "queue", "team-b", "-o", "json");
  const resource = { nominal: "4", borrowingLimit: "4", lendingLimit: "2", used: "0", available: "2" };
  expect(JSON.parse(out.join("\n"))).toMatchObject({
    ...{ name: "team-b", parent: "company", problem: "HELD", stopPolicy: "Hold", reservations: [] },
    pools: [{ pool: "h100", resources: [{ resource: GPU, ...resource }] }],
  });
  const list = JSON.parse((await muster("queues", "-o", "json")).out.join("\n")) as readonly { name: string }[];
  expect(list.map(({ name }) => name)).toEqual(["company", "team-a", "team-b"]);
});

it("suggests the nearest name for a queue that does not exist", async () => {
  const { code, err } = await muster("get", "queue", "team-aa");
  expect(err).toEqual(["error: queue team-aa does not exist", 'hint: did you mean "team-a"?']);
  expect(code).toBe(4);
});

it("explains a job that waits for quota: the queue, the numbers, and the remedy", async () => {
  const { code, out } = await muster("explain", "job/train");
  expect(out).toContain("queue team-a: BestEffortFIFO; 1 pending, 1 admitted");
  expect(out).toContain("  nvidia.com/gpu in pool h100: 4 needed, 0 available");
  expect(out).toContain("  team-a  8      10    2         1");
  expect(out.filter((line) => line.startsWith("next: "))).toEqual([
    "next: wait until work of its tree ends, or raise nominal of nvidia.com/gpu: `kubectl edit queue team-a`",
  ]);
  expect(code).toBe(0);
  const json = JSON.parse((await muster("explain", "job/train", "-o", "json")).out.join("\n")) as object;
  expect(json).toMatchObject({ queue: { name: "team-a", shortage: { requested: "4", available: "0" }, ahead: [] } });
});

it("explains a batch/v1 Job in its pause after the readyTimeout, which has no request in the ledger: why it waits and until when", async () => {
  const { code, out } = await muster("explain", "batch-job/ai-train-0a1b2c3d4e5f");
  expect(out).toEqual(["batch-job ai-train-0a1b2c3d4e5f: READY_TIMEOUT", `  ${PAUSE}`, "next: correct it"]);
  expect(code).toBe(0);
  const { out: json } = await muster("explain", "batch-job/ai-train-0a1b2c3d4e5f", "-n", "ai", "-o", "json");
  expect(JSON.parse(json.join("\n"))).toMatchObject({ code: "READY_TIMEOUT", message: PAUSE, next: "correct it" });
  const named = await muster("explain", "batch-job/ai/train");
  expect(named.out).toEqual(["batch-job train: READY_TIMEOUT", `  ${PAUSE}`, "next: correct it"]);
  expect((await muster("explain", "batch-job/web/train")).code).toBe(4);
  const elsewhere = await muster("explain", "batch-job/ai-train-0a1b2c3d4e5f", "-n", "web");
  expect(elsewhere).toMatchObject({
    code: 4,
    err: [expect.stringMatching(/holds no machines and waits for none/), expect.anything()],
  });
});

it("shows the queues of reservations", async () => {
  const { out } = await muster("get", "reservations");
  expect(out[0]).toMatch(/^ID +OWNER +QUEUE +STATE/);
  expect(out.filter((line) => line.includes("team-a"))).toHaveLength(2);
});

it("completes the command, the kind and the names of queues", async () => {
  expect((await muster("__complete", "--", "queu")).out).toEqual(["queues"]);
  expect((await muster("__complete", "--", "describe", "queue", "team")).out).toEqual(["team-a", "team-b"]);
});

it("checks in doctor that machines back the quotas", async () => {
  const { out } = await muster("doctor", "-o", "json");
  const checks = JSON.parse(out.join("\n")) as readonly { check: string; detail: string }[];
  expect(checks.find(({ check }) => check === "quotas and machines")?.detail).toBe(
    "the tree of company owns 12 nvidia.com/gpu of h100, which has 8",
  );
});

import { expect, it } from "vitest";
import { makeQueue, makeOwnedAmount, TWO_TEAMS } from "../../test/a-queue.ts";
import type { Reservation } from "../adapters/reservation-messages.ts";
import { buildQueueDescription, buildQueueRecord, buildQueueTable, type ShownQueue } from "./build-queue-views.ts";
import { placeQueues } from "./queue-tree.ts";

const STYLE = { columns: 100, colours: false };

it("shows the tree with used, owned and borrowed amounts", () => {
  expect(buildQueueTable(placeQueues(TWO_TEAMS), STYLE)).toEqual([
    "QUEUE     POOL  USE       CPU      MEMORY       GPU        PENDING  ADMITTED  SHARE",
    "company   h100  ########  108/192  704Gi/1.5Ti  10/10      0        0         0",
    "  team-a  h100  ######++  96/128   640Gi/1Ti    10/8 (+2)  1        2         0.2",
    "  team-b  h100  ##......  12/64    64Gi/512Gi   1/4        0        1         0",
  ]);
});

it("omits the bar before any other column", () => {
  const [header] = buildQueueTable(placeQueues(TWO_TEAMS), { ...STYLE, columns: 80 });
  expect(header).toBe("QUEUE     POOL  CPU      MEMORY       GPU        PENDING  ADMITTED  SHARE");
});

it("has a line for each pool, and shows queue and counts once", () => {
  const amounts = [makeOwnedAmount("cpu", 8000), { ...makeOwnedAmount("cpu", 4000, 1000), pool: "spot" }];
  expect(buildQueueTable(placeQueues([makeQueue("solo", { amounts, shareMillionths: 2 ** 53 - 1 })]), STYLE)).toEqual([
    "QUEUE  POOL  USE       CPU  PENDING  ADMITTED  SHARE",
    "solo   h100  ........  0/8  0        0         >999",
    "       spot  ##......  1/4",
  ]);
});

const LONG = "research-on-foundation-models-of-the-north";
const CROWDED = [
  makeQueue("company", { problem: "NOT_A_LEAF" }),
  makeQueue(LONG, {
    parent: "company",
    amounts: [
      ...["cpu", "memory", "nvidia.com/gpu", "rdma/hca", "hugepages-1Gi"].map((each) => makeOwnedAmount(each, 4096, 1)),
      { ...makeOwnedAmount("nvidia.com/gpu", 2, 5), pool: "machines-with-a-long-name" },
    ],
  }),
];

it.each([60, 80, 100])("fits into %d columns with long names and many resources", (columns) => {
  const lines = buildQueueTable(placeQueues(CROWDED), { ...STYLE, columns });
  expect(lines.filter((line) => line.length > columns)).toEqual([]);
  expect(lines).toHaveLength(5);
  expect(lines[2]).toContain("research-on-foundation-models-of-th");
});

it("puts pools on lines of their own if columns do not fit, the fullest resource first", () => {
  const [queue] = CROWDED.slice(1);
  const amounts = [...(queue?.amounts ?? []).slice(0, 5), makeOwnedAmount("pods", 2, 5)];
  const [, , pool] = buildQueueTable(placeQueues([makeQueue(LONG, { amounts }), makeQueue("z")]), STYLE);
  expect(pool).toMatch(/^ {4}h100: ###\+\+\+\+\+ pods 5\/2 \(\+3\), cpu 1m\/4096m, memory 1\/4Ki, gpu 1\/4Ki/);
});

it.each([
  [{ problem: "HELD", stopPolicy: "Hold" }, /HELD: spec.stopPolicy is Hold$/, /patch queue q .*"None"/],
  [{ problem: "PARENT_MISSING", parent: "nowhere" }, /the parent nowhere does not exist$/, /create the queue nowhere/],
  [{ problem: "CYCLE", parent: "q" }, /the queue is below itself$/, /change spec.parent/],
  [
    { problem: "INVALID_SPEC", specProblem: "spec.weight is wrong" },
    /q: INVALID_SPEC: spec.weight is wrong$/,
    /kubectl describe queue q/,
  ],
  [{ problem: "NOT_A_LEAF", pending: 1 }, /it has queues below it/, /name a queue below it: below/],
])("shows the problem of %o below the table, with the remedy", (rest, message, next) => {
  const lines = buildQueueTable(placeQueues([makeQueue("q", rest), makeQueue("below", { parent: "q" })]), STYLE);
  expect(lines.at(-2)).toMatch(message);
  expect(lines.at(-1)).toMatch(next);
});

it("names the queue above that holds a queue", () => {
  const queues = [
    makeQueue("top", { stopPolicy: "Hold", problem: "HELD" }),
    makeQueue("q", { parent: "top", problem: "HELD" }),
  ];
  expect(buildQueueTable(placeQueues(queues), STYLE).at(-2)).toBe(
    "q: HELD: queue top above it: spec.stopPolicy is Hold",
  );
});

const WAITING: Reservation = {
  ...{ id: "r-2", ownerKind: "job", ownerId: "train-2", state: "waiting", needs: [], machines: [], priority: 5 },
  ...{ createdAtMs: 0, grantedAtMs: undefined, queue: "team-a" },
  because: {
    ...{ code: "WAITING_FOR_QUOTA", pool: "", requested: 0, parts: 0, available: 0, ahead: 0 },
    quota: { queue: "team-a", pool: "h100", resource: "nvidia.com/gpu", requested: "4", available: "0" },
  },
};
const GRANTED: Reservation = {
  ...{ ...WAITING, id: "r-1", ownerId: "train-1", state: "granted", grantedAtMs: 1000, because: undefined },
  machines: [{ component: "worker-0", pool: "h100", node: "n-1" }],
  use: [{ pool: "h100", amounts: { cpu: "96", "nvidia.com/gpu": "8" } }],
};

function teamA(): ShownQueue {
  const [, queue] = placeQueues(TWO_TEAMS);
  if (queue === undefined) throw new Error("no queue");
  return { ...queue, reservations: [WAITING, GRANTED] };
}

it("describes the quotas, the available amounts, the waiting requests and the machines of a queue", () => {
  expect(buildQueueDescription(teamA(), 61_000, STYLE)).toEqual([
    "QUEUE         team-a",
    "parent        company",
    "strategy      BestEffortFIFO: requests that fit may pass one that does not",
    "stop policy   None",
    "weight        1",
    "max priority  100",
    "preempts      -",
    "namespaces    all",
    "pending       1",
    "admitted      2",
    "share         0.2",
    "problem       -",
    "",
    "POOL  RESOURCE        NOMINAL  MAX BORROWED  MAX LENT  USED   BORROWED  CAN GET",
    "h100  cpu             128      no limit      all       96     0         84",
    "h100  memory          1Ti      no limit      all       640Gi  0         832Gi",
    "h100  nvidia.com/gpu  8        no limit      all       10     2         0",
    "",
    "WAITS        PLACE  PRIORITY  AGE    WHY",
    "job/train-2  1      5         1m01s  WAITING_FOR_QUOTA h100: 4 nvidia.com/gpu needed, 0 available",
    "",
    "HOLDS        MACHINES  SINCE  QUOTA USED",
    "job/train-1  1         1m00s  h100: 96 cpu, 8 nvidia.com/gpu",
  ]);
});

it("shows which work the requests of a queue may preempt, and which of its own work is never preempted", () => {
  const never = { reclaim: "Never", fairSharing: "Never", withinQueue: "Never" };
  const linesOf = (more: Partial<ShownQueue>) => buildQueueDescription({ ...teamA(), ...more }, 61_000, STYLE);
  const policy = { ...never, reclaim: "Any", withinQueue: "LowerPriority" };
  const lines = linesOf({
    preemption: policy,
    minRunTimeMs: 600_000,
    permitsNonPreemptible: true,
  });
  expect(lines).toContain("preempts      reclaim: Any, withinQueue: LowerPriority");
  expect(lines).toContain("min run time  10m");
  expect(linesOf({ readyTimeoutMs: 90_000 })).toContain("ready timeout  1m30s");
  expect(lines).toContain("permits       work that is not preemptible");
  expect(linesOf({ preemption: { ...policy, whileBorrowing: { maxPriority: 5 } } })).toContain(
    "preempts      reclaim: Any, withinQueue: LowerPriority, whileBorrowing: priority 5 at most",
  );
  expect(linesOf({ preemption: never })).toContain("preempts      -");
  expect(
    buildQueueRecord({ ...teamA(), preemption: policy, minRunTimeMs: 600_000, readyTimeoutMs: 90_000 }),
  ).toMatchObject({
    preemption: policy,
    minRunTime: "10m",
    readyTimeout: "1m30s",
  });
});

it("shows the quota of a queue with queues below it, and the remedy of a problem", () => {
  const [company] = placeQueues(TWO_TEAMS);
  if (company === undefined) throw new Error("no queue");
  const lines = buildQueueDescription({ ...company, problem: "HELD", stopPolicy: "Hold" }, 0, STYLE);
  expect(lines).toContain("queues below it  team-a, team-b");
  expect(lines).toContain("h100  nvidia.com/gpu  -        -             -         10     10     0         0");
  expect(lines.find((line) => line.startsWith("next: "))).toContain("kubectl patch queue company");
});

it("builds the record for programs, with quantities of Kubernetes", () => {
  const record = buildQueueRecord(teamA());
  expect(record).toMatchObject({ name: "team-a", parent: "company", problem: "", weight: 1, share: 0.2, pending: 1 });
  expect(record["pools"]).toMatchObject([
    {
      pool: "h100",
      resources: [
        { resource: "cpu", nominal: "128", quota: "128", used: "96", borrowed: "0", available: "84" },
        { resource: "memory", nominal: "1Ti", used: "640Gi" },
        { resource: "nvidia.com/gpu", nominal: "8", used: "10", borrowed: "2", available: "0" },
      ],
    },
  ]);
  expect(record["reservations"]).toMatchObject([{ ownerId: "train-2" }, { ownerId: "train-1", queue: "team-a" }]);
});

import { expect, it } from "vitest";
import { planGrants } from "../src/domain/decisions/plan-grants.ts";
import { getForest, sumLimitedAmounts, type QueueNode } from "../src/domain/ledger/queue-forest.ts";
import { buildPairKey, type PairAmounts, type Queue, type Quota } from "../src/domain/ledger/queue.ts";
import {
  computeFreeQuota,
  computeMaxUse,
  computeQuotaLevel,
  computeQuotaTotal,
  findShortage,
  type QuotaWorld,
} from "../src/domain/ledger/quota.ts";
import { computeShare } from "../src/domain/ledger/share.ts";
import {
  borrowedOf,
  canEverFit,
  compareShares,
  findNextGrant,
  fits,
  freeOf,
  guaranteedOf,
  keptOf,
  levelOf,
  maxOf,
  problemOf,
  shareOf,
  totalOf,
  usedOf,
  withUse,
  type Forest,
  type QueuedRequest,
} from "./naive-quota.ts";
import { PATIENT } from "./queue-run.ts";
import { restoreForest } from "./restored-worlds.ts";

/** Amounts of pool p, unless the resource name starts with another pool's name. */
type Amounts = Readonly<Record<string, number>>;
type Quotas = Readonly<Record<string, number | Quota>>;

const CPU = buildPairKey("p", "cpu");

function keyOf(name: string): string {
  return name.includes(" ") ? name : buildPairKey("p", name);
}

function pairs(amounts: Amounts): PairAmounts {
  return new Map(Object.entries(amounts).map(([name, amount]) => [keyOf(name), amount]));
}

/** Builds a queue of `parent/name` or a root name. */
function queue(path: string, quotas: Quotas = {}, more: Partial<Queue> = {}): Queue {
  const [name = "", parent] = path.split("/").reverse();
  const named = Object.entries(quotas).map(
    ([pair, quota]) => [keyOf(pair), typeof quota === "number" ? { nominal: quota } : quota] as const,
  );
  return {
    name,
    ...(parent !== undefined && { parent }),
    weightMilli: 1000,
    quotas: new Map(named),
    strategy: "BestEffortFIFO",
    stopPolicy: "None",
    ...more,
  };
}

function forest(
  queues: readonly Queue[],
  own: Readonly<Record<string, Amounts>> = {},
  allocatable: Amounts = {},
): Forest {
  return {
    queues,
    own: new Map(Object.entries(own).map(([name, amounts]) => [name, pairs(amounts)])),
    allocatable: pairs(allocatable),
  };
}

let nextSequence = 1;

/** Builds a request; requests arrive in order, at one time unless it is set. */
function wait(name: string | undefined, ask: Amounts, more: Partial<QueuedRequest> = {}): QueuedRequest {
  const sequence = nextSequence++;
  return {
    sequence,
    ...(name !== undefined && { queue: name }),
    ask: pairs(ask),
    priority: 0,
    createdAtMs: 0,
    ...more,
  };
}

/** The queue in the ledger, and what its quotas are compared with. */
function inLedger(world: Forest, name: string): { readonly node: QueueNode; readonly quotas: QuotaWorld } {
  const { ledger } = restoreForest(world, []);
  const node = getForest(ledger.queues).get(name);
  if (node === undefined) throw new Error(`${name} is missing`);
  return { node, quotas: { use: ledger.use.tree, pools: world.allocatable } };
}

const left6right4 = [queue("root"), queue("root/left", { cpu: 6 }), queue("root/right", { cpu: 4 })];
const lending2 = [
  queue("root"),
  queue("root/left", { cpu: { nominal: 6, lendingLimit: 2 } }),
  queue("root/right", { cpu: 4 }),
];
const limited = (borrowingLimit: number) => [
  queue("root"),
  queue("root/left", { cpu: { nominal: 6, borrowingLimit } }),
  queue("root/right", { cpu: 4 }),
];
const threeLevels = [
  queue("root", { cpu: 2 }),
  queue("root/dep", { cpu: { nominal: 3, borrowingLimit: 4, lendingLimit: 1 } }),
  queue("dep/one", { cpu: { nominal: 5, lendingLimit: 3 } }),
  queue("dep/two", { cpu: 0 }),
  queue("root/other", { cpu: 10 }),
];
const weightsAlone = [queue("root"), queue("root/left"), queue("root/right")];

/** Expected per queue: total, guaranteed, used, free, max. */
it.each<[title: string, Forest, Readonly<Record<string, readonly number[]>>]>([
  [
    "6 and 4 with 8 and 1 used: the last 1 is free for both, and each could have 10",
    forest(left6right4, { left: { cpu: 8 }, right: { cpu: 1 } }),
    { root: [10, 0, 9, 1, 10], left: [6, 0, 8, 1, 10], right: [4, 0, 1, 1, 10] },
  ],
  [
    "6 with the lending limit 2, beside 4 with 5 used: 1 of the shared 6 is left, and the lender has its 4 and that 1",
    forest(lending2, { right: { cpu: 5 } }),
    { root: [6, 0, 5, 1, 6], left: [6, 4, 0, 5, 10], right: [4, 0, 5, 1, 6] },
  ],
  [
    "6 with the lending limit 2 and 5 used: 1 of the use is of the shared 6, so that the other queue can have 5",
    forest(lending2, { left: { cpu: 5 } }),
    { root: [6, 0, 1, 5, 6], left: [6, 4, 5, 5, 10], right: [4, 0, 0, 5, 6] },
  ],
  [
    "6 with the borrowing limit 0 and 5 used, beside 4 with 2 used: 1 more for the one, 3 for the other",
    forest(limited(0), { left: { cpu: 5 }, right: { cpu: 2 } }),
    { root: [10, 0, 7, 3, 10], left: [6, 0, 5, 1, 6], right: [4, 0, 2, 3, 10] },
  ],
  [
    "6 with the borrowing limit 3 and 8 used: 1 more although 2 are free, and never more than 9",
    forest(limited(3), { left: { cpu: 8 } }),
    { root: [10, 0, 8, 2, 10], left: [6, 0, 8, 1, 9], right: [4, 0, 0, 2, 10] },
  ],
  [
    "6 with the lending limit 2 and the borrowing limit 0: 4 guaranteed and 2 shared, with 5 used 1 more",
    forest([queue("root"), queue("root/left", { cpu: { nominal: 6, borrowingLimit: 0, lendingLimit: 2 } })], {
      left: { cpu: 5 },
    }),
    { root: [2, 0, 1, 1, 2], left: [6, 4, 5, 1, 6] },
  ],
  [
    "three levels: a department of 3 with 5 below it keeps 5 of 6, uses 7 of them, and gets 3 of the 10 that are free above it",
    forest(threeLevels, { one: { cpu: 4 }, two: { cpu: 5 }, other: { cpu: 1 } }),
    {
      root: [13, 0, 3, 10, 13],
      dep: [6, 5, 7, 3, 10],
      one: [5, 2, 4, 3, 12],
      two: [0, 0, 5, 3, 10],
      other: [10, 0, 1, 10, 13],
    },
  ],
  [
    "no quota anywhere: the 9 of the pool are the quota of the root, and 3 are free after 4 and 2",
    forest(weightsAlone, { left: { cpu: 4 }, right: { cpu: 2 } }, { cpu: 9 }),
    { root: [9, 0, 6, 3, 9], left: [0, 0, 4, 3, 9], right: [0, 0, 2, 3, 9] },
  ],
  [
    "no quota at the root but 4 at a leaf: the 9 of the pool do not count",
    forest([queue("root"), queue("root/left", { cpu: 4 }), queue("root/right")], {}, { cpu: 9 }),
    { root: [4, 0, 0, 4, 4], left: [4, 0, 0, 4, 4], right: [0, 0, 0, 4, 4] },
  ],
  [
    "a root with a quota of memory alone has 0 of the 9 cpu of the pool",
    forest([queue("root", { memory: 5 }), queue("root/left")], {}, { cpu: 9 }),
    { root: [0, 0, 0, 0, 0], left: [0, 0, 0, 0, 0] },
  ],
  [
    "6 lowered to 2 with 7 used, beside 4: nothing is free, and 1 is missing",
    forest([queue("root"), queue("root/left", { cpu: 2 }), queue("root/right", { cpu: 4 })], { left: { cpu: 7 } }),
    { root: [6, 0, 7, -1, 6], left: [2, 0, 7, -1, 6], right: [4, 0, 0, -1, 6] },
  ],
  [
    "6 lowered to 2 with 7 used, beside 4 that lend 1: 4 are missing, more than the guaranteed 3 make up",
    forest(
      [queue("root"), queue("root/left", { cpu: 2 }), queue("root/right", { cpu: { nominal: 4, lendingLimit: 1 } })],
      { left: { cpu: 7 } },
    ),
    { root: [3, 0, 7, -4, 3], left: [2, 0, 7, -4, 3], right: [4, 3, 0, -1, 6] },
  ],
  [
    "a leaf of 3 with 4 used below a department",
    forest([queue("old", { cpu: 10 }), queue("old/dep"), queue("dep/leaf", { cpu: 3 }), queue("new", { cpu: 5 })], {
      leaf: { cpu: 4 },
    }),
    {
      old: [13, 0, 4, 9, 13],
      dep: [3, 0, 4, 9, 13],
      leaf: [3, 0, 4, 9, 13],
      new: [5, 0, 0, 5, 5],
    },
  ],
  [
    "the same leaf moved to another tree: its 3 and its use of 4 count there",
    forest([queue("old", { cpu: 10 }), queue("old/dep"), queue("new/leaf", { cpu: 3 }), queue("new", { cpu: 5 })], {
      leaf: { cpu: 4 },
    }),
    {
      old: [10, 0, 0, 10, 10],
      dep: [0, 0, 0, 10, 10],
      leaf: [3, 0, 4, 4, 8],
      new: [8, 0, 4, 4, 8],
    },
  ],
  [
    "an inner queue that was a leaf keeps its own use of 2 beside the 3 of its new child",
    forest([queue("root", { cpu: 10 }), queue("root/leaf", { cpu: 1 }), queue("leaf/child", { cpu: 1 })], {
      leaf: { cpu: 2 },
      child: { cpu: 3 },
    }),
    { root: [12, 0, 5, 7, 12], leaf: [2, 0, 5, 7, 12], child: [1, 0, 3, 7, 12] },
  ],
])("computes total, guaranteed, used, free and the maximum: %s", (_title, world, expected) => {
  const computed = Object.keys(expected).map((name) => {
    const amounts = [totalOf, guaranteedOf, usedOf, freeOf, maxOf].map((amountOf) =>
      Number(amountOf(world, name, CPU)),
    );
    return [name, amounts];
  });
  expect(Object.fromEntries(computed)).toEqual(expected);
  const ofLedger = Object.keys(expected).map((name) => {
    const { node, quotas } = inLedger(world, name);
    const [used, guaranteed] = [quotas.use.get(name)?.get(CPU) ?? 0, node.guaranteed.get(CPU) ?? 0];
    const [free, most] = [computeFreeQuota(node, CPU, quotas), computeMaxUse(node, CPU, quotas.pools)];
    return [name, [computeQuotaTotal(node, CPU, quotas.pools), guaranteed, used, free, most]];
  });
  expect(Object.fromEntries(ofLedger)).toEqual(expected);
});

it.each<[title: string, Forest, name: string, ask: Amounts, fit: "now" | "later" | "never"]>([
  ["10 of 10 that are free", forest(left6right4), "left", { cpu: 10 }, "now"],
  ["11 of 10", forest(left6right4), "left", { cpu: 11 }, "never"],
  ["10 of 9 that are free and of 10 in all", forest(left6right4, { right: { cpu: 1 } }), "left", { cpu: 10 }, "later"],
  ["1 of memory, which the leaf does not name", forest(left6right4), "left", { memory: 1 }, "never"],
  [
    "1 of memory of 5, which only the root names, for a leaf with a quota of cpu",
    forest([queue("root", { memory: 5 }), queue("root/left", { cpu: 6 })]),
    "left",
    { memory: 1 },
    "never",
  ],
  [
    "1 of memory of 5, which only the root names, for a leaf without quotas",
    forest([queue("root", { memory: 5 }), queue("root/left")]),
    "left",
    { memory: 1 },
    "now",
  ],
  [
    "1 of memory of 5, which the leaf names with 0",
    forest([queue("root", { memory: 5 }), queue("root/left", { cpu: 6, memory: 0 })]),
    "left",
    { memory: 1 },
    "now",
  ],
  [
    "99 pods and 99 of ephemeral storage, which no queue names",
    forest(left6right4),
    "left",
    { pods: 99, "ephemeral-storage": 99 },
    "now",
  ],
  [
    "2 pods of 1, which the root names",
    forest([queue("root", { cpu: 9, pods: 1 }), queue("root/left")]),
    "left",
    { pods: 2 },
    "never",
  ],
  [
    "99 pods, where only another queue of the tree names them",
    forest([...weightsAlone, queue("root/third", { pods: 1 })]),
    "left",
    { pods: 99 },
    "now",
  ],
  [
    "1 pod of 1, which the root names, for a leaf that names cpu alone",
    forest([queue("root", { cpu: 9, pods: 1 }), queue("root/left", { cpu: 6 })]),
    "left",
    { pods: 1 },
    "now",
  ],
  [
    "99 pods of pool q, where only those of pool p are named",
    forest([...weightsAlone, queue("root/third", { pods: 1 })]),
    "left",
    { "q pods": 99 },
    "now",
  ],
  [
    "99 pods, which only a queue of another tree names",
    forest([...weightsAlone, queue("second", { pods: 1 })]),
    "left",
    { pods: 99 },
    "now",
  ],
  [
    "2 of cpu and 1 of memory where memory is missing",
    forest(weightsAlone, {}, { cpu: 9 }),
    "left",
    { cpu: 2, memory: 1 },
    "never",
  ],
  ["nothing where 1 is missing", forest(left6right4, { left: { cpu: 11 } }), "left", {}, "now"],
])("decides whether a request fits now, later or never: %s", (_title, world, name, ask, fit) => {
  expect(fits(world, name, pairs(ask))).toBe(fit === "now");
  expect(canEverFit(world, name, pairs(ask))).toBe(fit !== "never");
  const { node, quotas } = inLedger(world, name);
  const asked = sumLimitedAmounts(node, pairs(ask));
  const shortages = [
    findShortage(asked, (pair) => computeFreeQuota(node, pair, quotas)),
    findShortage(asked, (pair) => computeMaxUse(node, pair, quotas.pools)),
  ];
  expect(shortages.map((shortage) => shortage === undefined)).toEqual([fit === "now", fit !== "never"]);
});

it("admits nothing to a queue that is missing, inner, held or broken, below a held or broken one, in or below a cycle, or below a missing parent", () => {
  const world = forest([
    queue("good"),
    queue("held", {}, { stopPolicy: "Hold" }),
    queue("held/belowHeld"),
    queue("drained", {}, { stopPolicy: "HoldAndDrain" }),
    queue("drained/belowDrained"),
    queue("broken", {}, { problem: "unreadable" }),
    queue("broken/belowBroken"),
    queue("inner"),
    queue("inner/leaf"),
    queue("own/own"),
    queue("second/first"),
    queue("first/second"),
    queue("second/belowCycle"),
    queue("missing/orphan"),
    queue("orphan/child"),
  ]);
  const names = [...world.queues.map(({ name }) => name), "missing"];
  expect(names.filter((name) => problemOf(world, name) === undefined)).toEqual(["good", "leaf"]);
  expect(names.filter((name) => problemOf(world, name) === "QUEUE_UNKNOWN")).toEqual(["missing"]);
  const inForest = [...getForest(restoreForest(world, []).ledger.queues).values()];
  const admitting = inForest.filter(({ problem }) => problem === undefined).map(({ queue: { name } }) => name);
  expect(admitting.toSorted()).toEqual(["good", "leaf"]);
});

const levels = [
  queue("root", { cpu: 10, memory: 4 }),
  queue("root/dep", { cpu: 4 }),
  queue("dep/leaf", { cpu: 2, memory: 1 }),
  queue("dep/other"),
];

it.each<[title: string, own: Readonly<Record<string, Amounts>>, ask: Amounts, level: number]>([
  ["2 of its own 2", {}, { cpu: 2 }, 0],
  ["3, where the department has 6", {}, { cpu: 3 }, 1],
  ["6 of the department's 6", {}, { cpu: 6 }, 1],
  ["7, where the root has 16", {}, { cpu: 7 }, 2],
  ["16 of the root's 16", {}, { cpu: 16 }, 2],
  ["17, more than the root has", {}, { cpu: 17 }, 3],
  ["1 after 1 of its own 2", { leaf: { cpu: 1 } }, { cpu: 1 }, 0],
  ["1 after its own 2", { leaf: { cpu: 2 } }, { cpu: 1 }, 1],
  ["2 of its own 2 where others use all 6 of the department", { other: { cpu: 6 } }, { cpu: 2 }, 0],
  ["3 where others use 5 of the department's 6", { other: { cpu: 5 } }, { cpu: 3 }, 2],
  ["1 of cpu and 1 of memory, both its own", {}, { cpu: 1, memory: 1 }, 0],
  ["1 of cpu of its own and 2 of memory, which only the root has", {}, { cpu: 1, memory: 2 }, 2],
  ["3 of cpu, which the department has, and 2 of memory, which the root has", {}, { cpu: 3, memory: 2 }, 2],
  ["9 pods, which no queue names", {}, { pods: 9 }, 0],
])("finds the level whose total covers the use after the grant: %s", (_title, own, ask, level) => {
  expect(levelOf(forest(levels, own), "leaf", pairs(ask))).toBe(level);
  const { node, quotas } = inLedger(forest(levels, own), "leaf");
  expect(computeQuotaLevel(node, sumLimitedAmounts(node, pairs(ask)), quotas)).toBe(level);
});

const weighted = (weightMilli: number) => [
  queue("root"),
  queue("root/left", { cpu: 2 }, { weightMilli }),
  queue("root/right", { cpu: 8 }),
];
const department = [
  queue("root"),
  queue("root/dep", {}, { weightMilli: 500 }),
  queue("dep/leaf", { cpu: { nominal: 5, lendingLimit: 1 } }),
  queue("root/other", { cpu: 9 }),
];

it.each<[title: string, Forest, name: string, share: `${number}/${number}`, isLast: boolean]>([
  ["1 of its own 2", forest(weighted(1000), { left: { cpu: 1 } }), "left", "0/1", false],
  [
    "5 with 2 of its own, of 10 in all, with the weight 1: 3/10",
    forest(weighted(1000), { left: { cpu: 5 } }),
    "left",
    "3/10",
    false,
  ],
  ["the same with the weight 2: 3/20", forest(weighted(2000), { left: { cpu: 5 } }), "left", "3/20", false],
  ["the same with the weight 1/2: 3/5", forest(weighted(500), { left: { cpu: 5 } }), "left", "3/5", false],
  [
    "the same with the weight 0: 3/10, after all others",
    forest(weighted(0), { left: { cpu: 5 } }),
    "left",
    "3/10",
    true,
  ],
  ["2 of its own 2 with the weight 0", forest(weighted(0), { left: { cpu: 2 } }), "left", "0/1", false],
  ["a root, whatever it uses", forest(weighted(1000), { root: { cpu: 30 } }), "root", "0/1", false],
  [
    "cpu of two pools, 3 of 10 and 1 of 6: 4/16",
    forest([queue("root", { cpu: 8, "q cpu": 6 }), queue("root/left", { cpu: 2, "q cpu": 0 })], {
      left: { cpu: 5, "q cpu": 1 },
    }),
    "left",
    "1/4",
    false,
  ],
  [
    "the same beside 3 of 9 of memory: 1/3 is more than 1/4",
    forest([queue("root", { cpu: 8, "q cpu": 6, memory: 9 }), queue("root/left", { cpu: 2, "q cpu": 0, memory: 0 })], {
      left: { cpu: 5, "q cpu": 1, memory: 3 },
    }),
    "left",
    "1/3",
    false,
  ],
  [
    "cpu of one pool of two without quotas, 3 of 9 and 3 together: 1/4",
    forest(weightsAlone, { left: { cpu: 3 } }, { cpu: 9, "q cpu": 3 }),
    "left",
    "1/4",
    false,
  ],
  [
    "cpu of one pool of two, where each leaf names the first: 1/2",
    forest(
      [queue("root"), queue("root/left", { cpu: 1 }), queue("root/right", { cpu: 1 })],
      { left: { cpu: 2 } },
      { "q cpu": 8 },
    ),
    "left",
    "1/2",
    false,
  ],
  [
    "3 of a parent that has 4 and may borrow 2 of 10: 3/6",
    forest(
      [queue("root", { cpu: 6 }), queue("root/dep", { cpu: { nominal: 4, borrowingLimit: 2 } }), queue("dep/leaf")],
      { leaf: { cpu: 3 } },
    ),
    "leaf",
    "1/2",
    false,
  ],
  [
    "a department with the weight 1/2, where 4 are what its leaf keeps: 0",
    forest(department, { leaf: { cpu: 4 } }),
    "dep",
    "0/1",
    false,
  ],
  [
    "the same with 6 where its total is 1: up 2, borrowed 1/10, over the weight 1/2",
    forest(department, { leaf: { cpu: 6 } }),
    "dep",
    "1/5",
    false,
  ],
  [
    "2 of pods, which its leaf names and it does not",
    forest([queue("root", { cpu: 9 }), queue("root/dep"), queue("dep/leaf", { cpu: 0, pods: 1 })], {
      leaf: { pods: 2 },
    }),
    "dep",
    "0/1",
    false,
  ],
  ["2 of pods, which no queue names", forest(weightsAlone, { left: { pods: 2 } }, { pods: 5 }), "left", "0/1", false],
])("computes the share: %s", (_title, world, name, expected, isLast) => {
  const share = shareOf(world, name);
  const [numerator = 0n, denominator = 0n] = expected.split("/").map(BigInt);
  expect(compareShares(share, { numerator, denominator, isLast })).toBe(0);
  expect(share.isLast).toBe(isLast);
  const { node, quotas } = inLedger(world, name);
  const ofLedger = computeShare(node, quotas.use.get(name) ?? new Map<string, number>(), quotas);
  expect(compareShares(ofLedger, { numerator, denominator, isLast })).toBe(0);
});

it("orders a share where nothing can be lent after every number, and before the weight 0", () => {
  const lost = shareOf(forest([queue("root", { cpu: 0 }), queue("root/left")], { left: { cpu: 2 } }), "left");
  expect(compareShares(lost, { numerator: 1_000_000n, denominator: 1n, isLast: false })).toBeGreaterThan(0);
  expect(compareShares(lost, { numerator: 1n, denominator: 1n, isLast: true })).toBeLessThan(0);
  expect(compareShares(lost, lost)).toBe(0);
});

it("adds the request to the leaf's use, and counts use beyond the total as borrowed: 5 and 3 of 6 borrow 2", () => {
  const after = withUse(forest(left6right4, { left: { cpu: 5 } }), "left", pairs({ cpu: 3 }));
  expect(usedOf(after, "left", CPU)).toBe(8n);
  expect(usedOf(after, "root", CPU)).toBe(8n);
  expect(borrowedOf(after, "left", CPU)).toBe(2n);
  expect(borrowedOf(after, "right", CPU)).toBe(0n);
});

const departments = [
  queue("root", { cpu: 5 }),
  queue("root/dep1", { cpu: 9 }),
  queue("dep1/x"),
  queue("root/dep2"),
  queue("dep2/y", { cpu: 6 }),
];
const even = [queue("root", { cpu: 10 }), queue("root/left"), queue("root/right")];
const weights = (left: number, right: number) => [
  queue("root", { cpu: 10 }),
  queue("root/left", {}, { weightMilli: left }),
  queue("root/right", {}, { weightMilli: right }),
];
/** After one more for each, the shares are 1000k + 1 and 1000k + 1/1.001 over the same amount, with the weights 1 and 1.001. */
const k = 4e12;
const huge = [
  queue("root", { cpu: Number.MAX_SAFE_INTEGER }),
  queue("root/left"),
  queue("root/right", {}, { weightMilli: 1001 }),
];
const strict = (path: string) => queue(path, { cpu: 6 }, { strategy: "StrictFIFO" });

/** The sequence of the request that the ledger grants next. */
function grantedNext(world: Forest, waiting: readonly QueuedRequest[]): number | undefined {
  return planGrants(restoreForest(world, waiting), PATIENT, 0).steps[0]?.sequence;
}

/** The winner is its index among the waiting requests. */
it.each<[title: string, Forest, waiting: readonly QueuedRequest[], winner: number | undefined]>([
  [
    "2 of the own 4 before 1 beyond the own 6, whatever the priority",
    forest(left6right4, { left: { cpu: 6 } }),
    [wait("left", { cpu: 1 }, { priority: 9 }), wait("right", { cpu: 2 })],
    1,
  ],
  [
    "the share 3/10 before the share 4/10, whatever the priority",
    forest(even, { left: { cpu: 3 }, right: { cpu: 1 } }),
    [wait("left", { cpu: 1 }, { priority: 9 }), wait("right", { cpu: 2 })],
    1,
  ],
  [
    "4/10 over the weight 2 before 3/10",
    forest(weights(2000, 1000), { left: { cpu: 3 }, right: { cpu: 2 } }),
    [wait("right", { cpu: 1 }), wait("left", { cpu: 1 })],
    1,
  ],
  [
    "a queue with the weight 0 after 9/10",
    forest(weights(0, 1000), { right: { cpu: 8 } }),
    [wait("left", { cpu: 1 }, { priority: 9 }), wait("right", { cpu: 1 })],
    1,
  ],
  [
    "of two queues with the weight 0 that with 1/10 before that with 2/10",
    forest(weights(0, 0), { left: { cpu: 1 } }),
    [wait("left", { cpu: 1 }), wait("right", { cpu: 1 })],
    1,
  ],
  [
    "a queue with the weight 0 within its own 6 before one that borrows",
    forest([queue("root", { cpu: 2 }), queue("root/left", { cpu: 6 }, { weightMilli: 0 }), queue("root/right")]),
    [wait("right", { cpu: 1 }, { priority: 9 }), wait("left", { cpu: 6 })],
    1,
  ],
  [
    "of one department the request that its quota covers before one that needs that of the root, whatever the share",
    forest([queue("root", { cpu: 10 }), queue("root/dep", { cpu: 6 }), queue("dep/x"), queue("dep/y")], {
      x: { cpu: 5 },
    }),
    [wait("y", { cpu: 2 }, { priority: 9 }), wait("x", { cpu: 1 })],
    1,
  ],
  [
    "the lower share, compared as an exact fraction where the decimals are equal",
    forest(huge, { left: { cpu: 1000 * k }, right: { cpu: 1001 * k } }),
    [wait("left", { cpu: 1 }, { priority: 9 }), wait("right", { cpu: 1 })],
    1,
  ],
  [
    "at equal shares of 2/10 the higher priority",
    forest(even, { left: { cpu: 1 }, right: { cpu: 1 } }),
    [wait("left", { cpu: 1 }), wait("right", { cpu: 1 }, { priority: 1 })],
    1,
  ],
  [
    "at equal shares and priorities the older one",
    forest(even),
    [wait("left", { cpu: 1 }, { createdAtMs: 5 }), wait("right", { cpu: 1 }, { createdAtMs: 4 })],
    1,
  ],
  ["of equal ones the first that arrived", forest(even), [wait("right", { cpu: 1 }), wait("left", { cpu: 1 })], 0],
  [
    "the department that borrows 1 of 20 before the one that borrows 2, although its leaf borrows 10",
    forest(departments, { x: { cpu: 9 }, y: { cpu: 7 } }),
    [wait("y", { cpu: 1 }, { priority: 9 }), wait("x", { cpu: 1 })],
    1,
  ],
  [
    "of two trees that with the higher priority, though it borrows in its tree",
    forest([...left6right4, queue("second", { cpu: 3 })], { left: { cpu: 6 } }),
    [wait("left", { cpu: 1 }, { priority: 9 }), wait("second", { cpu: 3 })],
    0,
  ],
  [
    "a queue with the weight 0 that borrows after work of another tree, whatever the priority",
    forest([queue("root", { cpu: 10 }), queue("root/left", {}, { weightMilli: 0 }), queue("second", { cpu: 3 })]),
    [wait("left", { cpu: 1 }, { priority: 9 }), wait("second", { cpu: 1 })],
    1,
  ],
  [
    "of two trees at level 1 the priority, whatever the share",
    forest([...even, queue("second", { cpu: 10 }), queue("second/third")], { left: { cpu: 7 } }),
    [wait("third", { cpu: 1 }), wait("left", { cpu: 1 }, { priority: 1 })],
    1,
  ],
  [
    "a request without a queue after one of a higher priority that borrows in its tree",
    forest(even),
    [wait("left", { cpu: 1 }, { priority: 9 }), wait(undefined, { cpu: 99 })],
    0,
  ],
  [
    "a request without a queue after one of a higher priority at level 0",
    forest(left6right4),
    [wait(undefined, { cpu: 1 }), wait("left", { cpu: 1 }, { priority: 1 })],
    1,
  ],
  [
    "in a leaf a younger 2 that fits before an older 5 that does not",
    forest([queue("root"), queue("root/left", { cpu: 6 })], { left: { cpu: 3 } }),
    [wait("left", { cpu: 5 }), wait("left", { cpu: 2 })],
    1,
  ],
  [
    "in a StrictFIFO leaf nothing while the older 5 does not fit",
    forest([queue("root"), strict("root/left")], { left: { cpu: 3 } }),
    [wait("left", { cpu: 5 }), wait("left", { cpu: 2 })],
    undefined,
  ],
  [
    "in a StrictFIFO leaf nothing before the head, which has the highest priority although it is younger",
    forest([queue("root"), strict("root/left")], { left: { cpu: 3 } }),
    [wait("left", { cpu: 2 }), wait("left", { cpu: 5 }, { priority: 1, createdAtMs: 1 })],
    undefined,
  ],
  [
    "in a StrictFIFO leaf past a 7 that can never fit into 6",
    forest([queue("root"), strict("root/left")], { left: { cpu: 3 } }),
    [wait("left", { cpu: 7 }), wait("left", { cpu: 2 })],
    1,
  ],
  [
    "nothing of a queue that is held",
    forest([queue("root", { cpu: 6 }, { stopPolicy: "Hold" })]),
    [wait("root", { cpu: 1 })],
    undefined,
  ],
])("grants next: %s", (_title, world, waiting, winner) => {
  const expected = winner === undefined ? undefined : waiting[winner];
  for (const order of [waiting, waiting.toReversed()]) {
    expect(findNextGrant(world, order)).toBe(expected);
    expect(grantedNext(world, order)).toBe(expected?.sequence);
  }
});

/** The left queue owns 6 and uses nothing; the right one owns 4 and uses 7, which leaves 3 free. */
it.each<
  [title: string, left: Queue, waiting: readonly QueuedRequest[], kept: number | undefined, winner: number | undefined]
>([
  [
    "5 of the own 6, so that 2 more for the borrower wait although 3 are free",
    queue("root/left", { cpu: 6 }),
    [wait("right", { cpu: 2 }), wait("left", { cpu: 5 })],
    1,
    undefined,
  ],
  [
    "5, beside which a later 3 of the own quota is granted",
    queue("root/left", { cpu: 6 }),
    [wait("right", { cpu: 2 }), wait("left", { cpu: 5 }), wait("left", { cpu: 3 })],
    1,
    2,
  ],
  [
    "5, beside which nothing is granted in a StrictFIFO leaf",
    strict("root/left"),
    [wait("right", { cpu: 2 }), wait("left", { cpu: 5 }), wait("left", { cpu: 3 })],
    1,
    undefined,
  ],
  [
    "nothing for 7, which exceeds the own 6",
    queue("root/left", { cpu: 6 }),
    [wait("right", { cpu: 2 }), wait("left", { cpu: 7 })],
    undefined,
    0,
  ],
  [
    "5 behind 7, which exceeds the own 6",
    queue("root/left", { cpu: 6 }),
    [wait("right", { cpu: 2 }), wait("left", { cpu: 7 }), wait("left", { cpu: 5 })],
    2,
    undefined,
  ],
  [
    "nothing behind 7 in a StrictFIFO leaf",
    strict("root/left"),
    [wait("right", { cpu: 2 }), wait("left", { cpu: 7 }), wait("left", { cpu: 5 })],
    undefined,
    0,
  ],
  [
    "nothing for a queue that is held",
    queue("root/left", { cpu: 6 }, { stopPolicy: "Hold" }),
    [wait("right", { cpu: 2 }), wait("left", { cpu: 5 })],
    undefined,
    0,
  ],
])("keeps the own quota: %s", (_title, left, waiting, kept, winner) => {
  const world = forest([queue("root"), left, queue("root/right", { cpu: 4 })], { right: { cpu: 7 } });
  expect(keptOf(world, "left", waiting)).toBe(kept === undefined ? undefined : waiting[kept]);
  expect(findNextGrant(world, waiting)).toBe(winner === undefined ? undefined : waiting[winner]);
  expect(grantedNext(world, waiting)).toBe(winner === undefined ? undefined : waiting[winner]?.sequence);
});

import { describe, expect, it } from "vitest";
import { planGrants } from "../src/domain/decisions/plan-grants.ts";
import { planPreemptions } from "../src/domain/decisions/plan-preemptions.ts";
import { buildPairKey, type Queue, type Quota } from "../src/domain/ledger/queue.ts";
import { NaivePreemption, type PreemptionEvent, type PreemptionOperation } from "./naive-preempting-ledger.ts";
import { isEnough, isMinimal, planPreemption, victimsOf } from "./naive-preemption.ts";
import { grantable, type PreemptionPolicy, type PreemptionWorld, type Work } from "./naive-world.ts";
import { listFaults, listForgotten, listUnserved } from "./preemption-history.ts";
import { printEvents, printNaive, stepReal } from "./preemption-driver.ts";
import { PATIENT } from "./queue-run.ts";
import { toAmounts, makeNode, makeOwner, startRun, type LedgerRun } from "./random-world.ts";
import { restoreWorld } from "./restored-worlds.ts";

const CPU = buildPairKey("a", "cpu");

/** Builds a queue of `parent/name` or a root name, with cpu of pool a. */
function queue(path: string, cpu: number | Quota, more: Partial<Queue> = {}): Queue {
  const [name = "", parent] = path.split("/").reverse();
  return {
    name,
    ...(parent !== undefined && { parent }),
    weightMilli: 1000,
    quotas: new Map(cpu === 0 ? [] : [[CPU, typeof cpu === "number" ? { nominal: cpu } : cpu]]),
    strategy: "BestEffortFIFO",
    stopPolicy: "None",
    ...more,
  };
}

/** One piece of work, named by its key: its cpu, and fields that differ from the default. */
type Line = { readonly name: string; readonly queue: string | undefined; readonly cpu: number } & Partial<
  Pick<Work, "priority" | "notPreemptible" | "preemptedFor"> & { readonly atMs: number; readonly isGranted: boolean }
>;

function runs(name: string, queueName: string | undefined, cpu: number, more: Partial<Line> = {}): Line {
  return { name, queue: queueName, cpu, ...more, isGranted: true };
}

function waits(name: string, queueName: string, cpu: number, more: Partial<Line> = {}): Line {
  return { name, queue: queueName, cpu, ...more };
}

/** Current time in every world. */
const NOW_MS = 1000;

/** Work in the order of submission, which is also the order of grants unless `atMs` is set; on one node. */
function world(queues: readonly Queue[], lines: readonly Line[], nodeCpu = 1000): PreemptionWorld {
  const work = lines.map(({ name, queue: queueName, cpu, isGranted, atMs, priority = 0, ...more }, index): Work => {
    const needs = [{ component: "c", pool: "a", shared: toAmounts({ cpu }) }];
    const use = new Map([[CPU, cpu]]);
    return {
      sequence: index + 1,
      owner: makeOwner(name, "job"),
      ...(queueName !== undefined && { queue: queueName }),
      needs,
      priority,
      createdAtMs: index,
      ...more,
      ...(isGranted === true && { grant: { atMs: atMs ?? index, nodes: ["n"], use } }),
    };
  });
  const node = makeNode("n", "a", { allocatable: toAmounts({ cpu: nodeCpu, pods: 1000 }) });
  return { queues, nodes: [node], work, nowMs: NOW_MS };
}

/** What the reference and the ledger preempt: `beneficiary: REASON victim, ...`, or `none`. */
function planned(start: PreemptionWorld): { readonly reference: string; readonly ledger: string } {
  const nameOf = (sequence = 0): string => start.work[sequence - 1]?.owner.id.slice(1) ?? "";
  const print = (beneficiary: number | undefined, victims: readonly { sequence: number; reason: string }[]): string => {
    if (victims.length === 0) return "none";
    return `${nameOf(beneficiary)}: ${victims.map(({ sequence, reason }) => `${reason} ${nameOf(sequence)}`).join(", ")}`;
  };
  const plan = planPreemption(start);
  const preempted = planPreemptions(restoreWorld(start), PATIENT, start.nowMs).events.flatMap((event) =>
    event.kind === "preempted" ? [event] : [],
  );
  return {
    reference: print(plan?.beneficiary, plan?.victims ?? []),
    ledger: print(preempted[0]?.beneficiary, preempted),
  };
}

/** Two queues: left owns 6, right 4. */
function leftRight(ofLeft: PreemptionPolicy, right: Partial<Queue> = {}) {
  return [queue("root", 0), queue("root/left", 6, ofLeft), queue("root/right", 4, right)];
}

/** Two queues that own 2 each, and share the rest. */
function twoOf(root: number, ofLeft: PreemptionPolicy, right: Partial<Queue> = {}) {
  return [queue("root", root), queue("root/left", 2, ofLeft), queue("root/right", 2, right)];
}

/** A queue that may use 6 and borrows nothing. */
function alone(withinQueue: PreemptionPolicy["withinQueue"]) {
  return [
    queue("root", 0),
    queue("root/left", { nominal: 6, borrowingLimit: 0 }, { ...(withinQueue && { withinQueue }) }),
  ];
}

/** Queues one and two own 2 each, their department 4, other 4. */
const department = [
  queue("root", 0),
  queue("root/dep", 4),
  queue("dep/one", 2, { reclaim: "Any" }),
  queue("dep/two", 2),
  queue("root/other", 4),
];

type Case = readonly [
  title: string,
  queues: readonly Queue[],
  lines: readonly Line[],
  expected: string,
  /** Undefined: machines are plentiful. */
  nodeCpu?: number,
];

function all(cases: readonly Case[]): void {
  for (const [title, queues, lines, expected, nodeCpu] of cases)
    it(title, () => {
      expect(planned(world(queues, lines, nodeCpu))).toEqual({ reference: expected, ledger: expected });
    });
}

const borrowed = [runs("a", "right", 4), runs("b", "right", 4)];

describe("reclaim", () => {
  all([
    [
      "reclaims own nominal quota that others borrowed",
      leftRight({ reclaim: "Any" }),
      [...borrowed, waits("x", "left", 6)],
      "x: RECLAIM b",
    ],
    ["reclaims nothing without a policy", leftRight({}), [...borrowed, waits("x", "left", 6)], "none"],
    [
      "reclaims nothing of equal priority by LowerPriority",
      leftRight({ reclaim: "LowerPriority" }),
      [...borrowed, waits("x", "left", 6)],
      "none",
    ],
    [
      "reclaims what has a lower priority by LowerPriority",
      leftRight({ reclaim: "LowerPriority" }),
      [...borrowed, waits("x", "left", 6, { priority: 1 })],
      "x: RECLAIM b",
    ],
    [
      "reclaims from any priority by Any",
      leftRight({ reclaim: "Any" }),
      [runs("a", "right", 4, { priority: 5 }), runs("b", "right", 4, { priority: 5 }), waits("x", "left", 6)],
      "x: RECLAIM b",
    ],
    [
      "reclaims nothing from a queue that is within its own nominal quota, although machines are short",
      leftRight({ reclaim: "Any" }),
      [runs("a", "right", 4), runs("o", "left", 4), waits("x", "left", 2)],
      "none",
      8,
    ],
    [
      "reclaims nothing from a department within its quota, although a queue of it borrows from another one of it",
      [
        queue("root", 0),
        queue("root/left", 6, { reclaim: "Any" }),
        queue("root/dep", 0),
        queue("dep/one", 2),
        queue("dep/two", 6),
        queue("root/mid", 0),
      ],
      [runs("m", "mid", 4, { priority: 5 }), runs("d", "one", 6), runs("o", "left", 4), waits("x", "left", 2)],
      "x: RECLAIM m",
    ],
    [
      "reclaims from outside the smallest subtree whose quota covers the request: the queue",
      department,
      [runs("e", "other", 4), runs("f", "other", 4), runs("t", "two", 4), waits("x", "one", 2)],
      "x: RECLAIM t",
    ],
    [
      "reclaims from outside the smallest subtree whose quota covers the request: the department",
      department,
      [runs("e", "other", 4), runs("f", "other", 4), runs("t", "two", 4), waits("x", "one", 4)],
      "x: RECLAIM f",
    ],
    [
      "reclaims for a department what it owns, although the queue uses all that it owns itself",
      department,
      [runs("e", "other", 4), runs("f", "other", 4), runs("t", "two", 2), runs("o", "one", 2), waits("x", "one", 1)],
      "x: RECLAIM f",
    ],
    [
      "never brings its queue above that quota",
      leftRight({ reclaim: "Any" }),
      [runs("a", "right", 4), runs("b", "right", 3), runs("o", "left", 3), waits("x", "left", 4)],
      "none",
    ],
    [
      "takes own victims for the rest",
      leftRight({ reclaim: "Any", withinQueue: "LowerPriority" }),
      [runs("a", "right", 4), runs("b", "right", 3), runs("o", "left", 3, { priority: -1 }), waits("x", "left", 4)],
      "x: RECLAIM b, WITHIN_QUEUE o",
    ],
    [
      "spares the others where own victims alone are enough",
      leftRight({ reclaim: "Any", withinQueue: "LowerPriority" }),
      [runs("a", "right", 4), runs("b", "right", 2), runs("o", "left", 4, { priority: -1 }), waits("x", "left", 4)],
      "x: WITHIN_QUEUE o",
    ],
    [
      "preempts nothing in other queues while it must borrow",
      twoOf(4, { reclaim: "Any" }),
      [runs("a", "right", 4), runs("b", "right", 2), waits("x", "left", 4, { priority: 1 })],
      "none",
    ],
    [
      "reclaims while it borrows where its queue permits that",
      twoOf(4, { reclaim: "Any", whileBorrowing: Number.POSITIVE_INFINITY }),
      [runs("a", "right", 4), runs("b", "right", 2), waits("x", "left", 4, { priority: 1 })],
      "x: RECLAIM b",
    ],
    [
      "reclaims while it borrows only from lower priority",
      twoOf(4, { reclaim: "Any", whileBorrowing: Number.POSITIVE_INFINITY }),
      [runs("a", "right", 4), runs("b", "right", 2), waits("x", "left", 4)],
      "none",
    ],
    [
      "reclaims while it borrows only up to a priority",
      twoOf(4, { reclaim: "Any", whileBorrowing: -1 }),
      [runs("a", "right", 4, { priority: -1 }), runs("b", "right", 2), waits("x", "left", 4, { priority: 1 })],
      "x: RECLAIM a",
    ],
    [
      "reclaims nothing above that priority while it borrows",
      twoOf(4, { reclaim: "Any", whileBorrowing: -1 }),
      [runs("a", "right", 4), runs("b", "right", 2), waits("x", "left", 4, { priority: 1 })],
      "none",
    ],
    [
      "reclaims what a queue of weight 0 borrows, and nothing that it owns",
      leftRight({ reclaim: "Any" }, { weightMilli: 0 }),
      [runs("a", "right", 4), runs("b", "right", 2), waits("x", "left", 6)],
      "x: RECLAIM b",
    ],
  ]);
});

describe("fair sharing", () => {
  const any = twoOf(4, { fairSharing: "Any" });
  all([
    [
      "takes from the queue that is over its share for the one that is under it",
      any,
      [runs("a", "right", 4), runs("b", "right", 4), waits("x", "left", 4)],
      "x: FAIR_SHARING b",
    ],
    [
      "takes nothing without a policy",
      twoOf(4, {}),
      [runs("a", "right", 4), runs("b", "right", 4), waits("x", "left", 4)],
      "none",
    ],
    [
      "takes nothing of equal priority by LowerPriority",
      twoOf(4, { fairSharing: "LowerPriority" }),
      [runs("a", "right", 4), runs("b", "right", 4), waits("x", "left", 4)],
      "none",
    ],
    [
      "takes what has a lower priority by LowerPriority",
      twoOf(4, { fairSharing: "LowerPriority" }),
      [runs("a", "right", 4, { priority: -1 }), runs("b", "right", 4), waits("x", "left", 4)],
      "x: FAIR_SHARING a",
    ],
    // Left has 1 of 8 afterwards. Right has 1 without b, but 2 without a, which comes second.
    [
      "takes work if the share of the beneficiary afterwards is at most that of the victim afterwards",
      any,
      [runs("a", "right", 3), runs("b", "right", 2), runs("o", "left", 2), waits("x", "left", 2)],
      "x: FAIR_SHARING b",
    ],
    // Left has 2 of 8 afterwards, right none without a, but 4 before.
    [
      "or else takes work if its share afterwards is below that of the victim before",
      any,
      [runs("a", "right", 6), waits("x", "left", 4)],
      "x: FAIR_SHARING a",
    ],
    // Left has 2 of 8 afterwards, right none without a, and 2 before.
    [
      "takes nothing if its share afterwards equals that of the victim before",
      any,
      [runs("a", "right", 4), runs("o", "left", 3), waits("x", "left", 1, { priority: 9 })],
      "none",
    ],
    // By the first rule a fits, and falls short. By the second b is enough without it.
    [
      "spares a victim of the first rule where one of the second is enough",
      any,
      [runs("a", "right", 3), runs("b", "right", 5), waits("x", "left", 4)],
      "x: FAIR_SHARING b",
    ],
    [
      "takes from the largest share first, whatever is younger",
      [...twoOf(6, { fairSharing: "Any" }), queue("root/mid", 2)],
      [runs("r", "right", 5), runs("s", "right", 1), runs("m", "mid", 3), runs("n", "mid", 1), waits("x", "left", 3)],
      "x: FAIR_SHARING s",
    ],
    [
      "takes the youngest where shares are equal",
      [...twoOf(6, { fairSharing: "Any" }), queue("root/mid", 2)],
      [runs("m", "mid", 5), runs("r", "right", 5), waits("x", "left", 3)],
      "x: FAIR_SHARING r",
    ],
    [
      "compares the shares of departments where the queues meet below their parent",
      [
        queue("root", 8),
        queue("root/dep", 0, { weightMilli: 4000 }),
        queue("dep/one", 0, { fairSharing: "Any" }),
        queue("root/other", 0),
      ],
      // The department has 7 of 8 afterwards, divided by 4; the other queue has 4 of 8 before.
      [runs("o", "one", 4), runs("a", "other", 4), waits("x", "one", 3)],
      "x: FAIR_SHARING a",
    ],
    [
      "takes what a queue of weight 0 borrows, however little",
      twoOf(4, { fairSharing: "Any" }, { weightMilli: 0 }),
      [runs("a", "right", 2), runs("b", "right", 1), runs("o", "left", 5), waits("x", "left", 1)],
      "x: FAIR_SHARING b",
    ],
    [
      "takes nothing that a queue of weight 0 owns",
      twoOf(4, { fairSharing: "Any" }, { weightMilli: 0 }),
      [runs("a", "right", 1), runs("b", "right", 1), runs("o", "left", 6), waits("x", "left", 1)],
      "none",
    ],
  ]);
});

describe("within the queue", () => {
  all([
    [
      "takes what has a lower priority",
      alone("LowerPriority"),
      [runs("o", "left", 6), waits("x", "left", 6, { priority: 1 })],
      "x: WITHIN_QUEUE o",
    ],
    [
      "takes nothing without a policy",
      alone(undefined),
      [runs("o", "left", 6), waits("x", "left", 6, { priority: 1 })],
      "none",
    ],
    [
      "takes nothing of equal priority by LowerPriority",
      alone("LowerPriority"),
      [waits("x", "left", 6), runs("o", "left", 6)],
      "none",
    ],
    [
      "takes what is newer, of equal priority, by Any",
      alone("Any"),
      [waits("x", "left", 6), runs("o", "left", 6)],
      "x: WITHIN_QUEUE o",
    ],
    [
      "takes nothing that is older, of equal priority, by Any",
      alone("Any"),
      [runs("o", "left", 6), waits("x", "left", 6)],
      "none",
    ],
    [
      "takes nothing of higher priority by Any",
      alone("Any"),
      [waits("x", "left", 6), runs("o", "left", 6, { priority: 1 })],
      "none",
    ],
    [
      "takes the one that was granted last, although another was submitted later",
      alone("Any"),
      [runs("o", "left", 3, { atMs: 9 }), runs("p", "left", 3, { atMs: 5 }), waits("x", "left", 3, { priority: 1 })],
      "x: WITHIN_QUEUE o",
    ],
    [
      "borrows with its own victims",
      twoOf(4, { withinQueue: "LowerPriority" }),
      [runs("o", "left", 4), runs("a", "right", 4), waits("x", "left", 4, { priority: 1 })],
      "x: WITHIN_QUEUE o",
    ],
  ]);
});

describe("victims", () => {
  const reclaim = leftRight({ reclaim: "Any" });
  const own = leftRight({ reclaim: "Any", withinQueue: "LowerPriority" });
  const every = { reclaim: "Any", fairSharing: "Any", withinQueue: "Any" } as const;
  const lacking2 = [
    runs("o", "left", 3, { priority: -1 }),
    runs("a", "right", 4),
    runs("b", "right", 5),
    waits("x", "left", 2),
  ];
  all([
    [
      "are reclaimed rather than taken by share or within the queue",
      leftRight(every),
      [runs("o", "left", 2, { priority: -9 }), runs("a", "right", 4), runs("b", "right", 4), waits("x", "left", 4)],
      "x: RECLAIM b",
    ],
    // Left has 3 of 12 afterwards. Right has 2 without b, and 3 without a.
    ["are taken by share rather than within the queue", twoOf(8, every), lacking2, "x: FAIR_SHARING a"],
    ["are taken within the queue at last", twoOf(8, { withinQueue: "Any" }), lacking2, "x: WITHIN_QUEUE o"],
    [
      "are borrowers in other queues first, whatever the priority of own work",
      own,
      [runs("o", "left", 1, { priority: -9 }), runs("a", "right", 4), runs("b", "right", 5), waits("x", "left", 1)],
      "x: RECLAIM b",
    ],
    [
      "have the lowest priority first",
      reclaim,
      [runs("a", "right", 2, { priority: -1 }), runs("b", "right", 2), runs("c", "right", 4), waits("x", "left", 4)],
      "x: RECLAIM a",
    ],
    [
      "are the youngest first, of equal priority",
      reclaim,
      [runs("a", "right", 4, { atMs: 8 }), runs("b", "right", 4, { atMs: 4 }), waits("x", "left", 6)],
      "x: RECLAIM a",
    ],
    [
      "are spared again when the rest is enough without them",
      reclaim,
      [runs("a", "right", 6), runs("b", "right", 1, { priority: -1 }), waits("x", "left", 6)],
      "x: RECLAIM a",
    ],
    [
      "are none when preemption falls short",
      leftRight({ reclaim: "LowerPriority" }),
      [
        runs("a", "right", 4, { priority: 9 }),
        runs("b", "right", 3, { priority: 9 }),
        runs("c", "right", 1, { priority: -1 }),
        waits("x", "left", 6),
      ],
      "none",
    ],
    [
      "are none when quota is enough, and no machine is afterwards",
      reclaim,
      [runs("s", undefined, 3), ...borrowed, waits("x", "left", 6)],
      "none",
      11,
    ],
    [
      "are enough of machines, too",
      reclaim,
      [runs("b", "right", 3), runs("c", "right", 3, { atMs: 9 }), runs("s", undefined, 2), waits("x", "left", 4)],
      "x: RECLAIM c",
      9,
    ],
    [
      "are never work without a queue",
      reclaim,
      [runs("s", undefined, 6), runs("a", "right", 4), waits("x", "left", 6)],
      "none",
      10,
    ],
    [
      "have had the minimum run time of their queue",
      leftRight({ reclaim: "Any" }, { minRunTimeMs: 500 }),
      [runs("a", "right", 4, { atMs: 500 }), runs("b", "right", 4, { atMs: 501 }), waits("x", "left", 6)],
      "x: RECLAIM a",
    ],
    [
      "are none within the minimum run time of their queue",
      leftRight({ reclaim: "Any" }, { minRunTimeMs: 500 }),
      [runs("a", "right", 4, { atMs: 501 }), runs("b", "right", 4, { atMs: 900 }), waits("x", "left", 6)],
      "none",
    ],
    [
      "exclude work with preemptible: false if its queue permits that",
      leftRight({ reclaim: "Any" }, { permitsNonPreemptible: true }),
      [runs("a", "right", 4), runs("b", "right", 4, { notPreemptible: true }), waits("x", "left", 6)],
      "x: RECLAIM a",
    ],
    [
      "include work with preemptible: false if its queue does not permit that",
      reclaim,
      [runs("a", "right", 4), runs("b", "right", 4, { notPreemptible: true }), waits("x", "left", 6)],
      "x: RECLAIM b",
    ],
    [
      "are not what the request was preempted for",
      reclaim,
      [runs("a", "right", 4), runs("b", "right", 4), waits("x", "left", 6, { preemptedFor: 2 })],
      "x: RECLAIM a",
    ],
    [
      "are not for a request behind the head of a StrictFIFO queue",
      [
        queue("root", 0),
        queue("root/left", 6, { reclaim: "LowerPriority", strategy: "StrictFIFO" }),
        queue("root/right", 4),
      ],
      [...borrowed, waits("h", "left", 6), waits("x", "left", 3)],
      "none",
    ],
    [
      "are not for a request of a queue that is held",
      [queue("root", 0), queue("root/left", 6, { reclaim: "Any", stopPolicy: "Hold" }), queue("root/right", 4)],
      [...borrowed, waits("x", "left", 6)],
      "none",
    ],
    [
      "are not taken for a request that would use quota for which an owner waits",
      [queue("root", 0), queue("root/left", 6), queue("root/right", 4, { withinQueue: "LowerPriority" })],
      // Without v, 3 cpu are free, and left keeps them for its own request.
      [
        runs("o", "left", 3),
        runs("a", "right", 4, { priority: 1 }),
        runs("v", "right", 3),
        waits("w", "left", 3),
        waits("x", "right", 3, { priority: 1 }),
      ],
      "none",
    ],
  ]);

  it("are a minimal set", () => {
    const small = world(reclaim, [
      runs("a", "right", 4),
      runs("b", "right", 2),
      runs("c", "right", 2),
      waits("x", "left", 6),
    ]);
    expect(victimsOf(small, 4)?.victims.map(({ sequence }) => sequence)).toEqual([3, 2]);
    expect([[2, 3], [3], [1, 2, 3]].map((victims) => isEnough(small, 4, victims))).toEqual([true, false, true]);
    expect([[2, 3], [3], [1, 2, 3]].map((victims) => isMinimal(small, 4, victims))).toEqual([true, false, false]);
  });
});

it.each<[title: string, PreemptionPolicy["reclaim"], cpu: number, permits: boolean, isGranted: boolean]>([
  ["borrows nothing where another queue may reclaim", "LowerPriority", 5, true, false],
  ["borrows where no other queue may reclaim", undefined, 5, true, true],
  ["is granted what its queue owns", "LowerPriority", 4, true, true],
  ["borrows where its queue does not permit that, because it may be preempted", "LowerPriority", 5, false, true],
])("work that sets preemptible: false %s", (_title, reclaim, cpu, permits, isGranted) => {
  const queues = leftRight({ ...(reclaim && { reclaim }) }, { permitsNonPreemptible: permits });
  const before = world(queues, [waits("x", "right", cpu, { notPreemptible: true })]);
  const [x] = before.work;
  expect(x && grantable(before, x) !== undefined).toBe(isGranted);
  expect(planGrants(restoreWorld(before), PATIENT, NOW_MS).steps).toHaveLength(isGranted ? 1 : 0);
});

it.each<[kind: string, isPreempted: boolean]>([
  ["job", true],
  ["batch-job", true],
  ["job-set", true],
  ["queued-pod", true],
  ["session", false],
  ["replica-set", false],
  ["container", false],
])("preempts the work of a %s: %s", (kind, isPreempted) => {
  const before = world(alone("LowerPriority"), [runs("o", "left", 6), waits("x", "left", 6, { priority: 1 })]);
  const work = before.work.map((each) => (each.grant === undefined ? each : { ...each, owner: makeOwner("o", kind) }));
  const expected = isPreempted ? "x: WITHIN_QUEUE o" : "none";
  expect(planned({ ...before, work })).toEqual({ reference: expected, ledger: expected });
});

/** The reference with these queues, beside the ledger, which must make the same decisions. It runs short commands and returns their events. */
class Script {
  readonly #reference: NaivePreemption;
  readonly #ledger: LedgerRun;
  readonly #names = new Map<number, string>();

  /** One node for each number of cpu. */
  constructor(queues: readonly Queue[], ...nodeCpus: readonly number[]) {
    const sizes = nodeCpus.length === 0 ? [1000] : nodeCpus;
    const nodes = sizes.map((cpu, index) =>
      makeNode(`n${index}`, "a", { allocatable: toAmounts({ cpu, pods: 1000 }) }),
    );
    this.#reference = new NaivePreemption(nodes);
    this.#ledger = startRun(nodes);
    for (const each of queues) this.#do({ kind: "put", queue: each });
  }

  get world(): PreemptionWorld {
    return this.#reference.world;
  }

  reserve(
    name: string,
    queueName: string | undefined,
    cpu: number,
    more: { priority?: number; graceMs?: number } = {},
  ): string[] {
    const needs = [{ component: "c", pool: "a", shared: toAmounts({ cpu }) }];
    return this.#do({ kind: "reserve", owner: makeOwner(name, "job"), queue: queueName, needs, priority: 0, ...more });
  }

  does(kind: "release" | "accept" | "requeue", name: string): string[] {
    return this.#do({ kind, owner: makeOwner(name, "job") });
  }

  wait(ms: number): string[] {
    return this.#do({ kind: "wait", ms });
  }

  #do(operation: PreemptionOperation): string[] {
    const { events } = this.#reference.step(operation);
    const before = this.#ledger.events.length;
    stepReal(this.#ledger, operation);
    expect(printEvents(this.#ledger.events.slice(before)).toSorted()).toEqual(printNaive(events).toSorted());
    for (const { sequence, owner } of this.#reference.world.work) this.#names.set(sequence, owner.id.slice(1));
    return events.filter(({ kind }) => kind !== "requested").map((event) => this.#print(event));
  }

  #print(event: PreemptionEvent): string {
    const name = this.#names.get(event.sequence) ?? "";
    if (event.kind !== "preempted") return `${event.kind} ${name}`;
    return `preempted ${name} for ${this.#names.get(event.beneficiary) ?? ""}: ${event.reason}, ${event.deadlineMs} ms`;
  }
}

describe("protocol", () => {
  /** Queue right uses 8 of its 4, in a and b. x waits for 6 of left, and gets the machines of b. */
  function start(queues = leftRight({ reclaim: "Any", withinQueue: "LowerPriority" })): Script {
    const script = new Script(queues);
    script.reserve("a", "right", 4);
    script.reserve("b", "right", 4, { graceMs: 5000 });
    expect(script.wait(1000)).toEqual([]);
    expect(script.reserve("x", "left", 6)).toEqual(["preempted b for x: RECLAIM, 6000 ms"]);
    return script;
  }

  it("records victim, beneficiary and deadline, and preempts no more for the same request", () => {
    const script = start();
    expect(script.wait(100)).toEqual([]);
    expect(script.does("accept", "b")).toEqual(["accepted b"]);
    expect(script.does("accept", "b")).toEqual([]);
    expect(script.does("requeue", "b")).toEqual(["requeued b", "granted x"]);
  });

  it("gives 30 s to an owner that states no grace", () => {
    const script = new Script(alone("LowerPriority"));
    script.reserve("o", "left", 6);
    expect(script.reserve("x", "left", 6, { priority: 1 })).toEqual(["preempted o for x: WITHIN_QUEUE, 30000 ms"]);
  });

  it("keeps vacated machines for the beneficiary, whatever the priority of others", () => {
    const script = start();
    // 2 cpu are free; x needs them beside the 4 of b.
    expect(script.reserve("y", "right", 2, { priority: 9 })).toEqual([]);
    expect(script.does("requeue", "b")).toEqual(["requeued b", "granted x"]);
  });

  it("grants to others what the beneficiary does not need", () => {
    const script = new Script(leftRight({ reclaim: "Any" }));
    script.reserve("a", "right", 9);
    expect(script.reserve("x", "left", 4)).toEqual(["preempted a for x: RECLAIM, 30000 ms"]);
    expect(script.reserve("y", "left", 1)).toEqual(["granted y"]);
    expect(script.does("requeue", "a")).toEqual(["requeued a", "granted x"]);
  });

  it("keeps no quota for a request that would borrow once the beneficiary of its queue is granted", () => {
    const queues = [
      queue("root/own", 6, { reclaim: "LowerPriority" }),
      queue("root/lender", 8),
      queue("root/other", 0),
    ];
    const script = new Script([queue("root", 0), ...queues]);
    script.reserve("p", "lender", 5, { priority: -1 });
    script.reserve("q", "lender", 8, { priority: -1 });
    expect(script.reserve("x", "own", 5)).toEqual(["preempted q for x: RECLAIM, 30000 ms"]);
    expect(script.reserve("y", "own", 4, { priority: -1 })).toEqual([]);
    expect(script.reserve("z", "other", 1, { priority: -1 })).toEqual(["granted z"]);
  });

  it("lets the victim wait at its old place", () => {
    const script = start();
    script.reserve("later", "right", 4);
    script.does("requeue", "b");
    expect(script.does("release", "x")).toEqual(["released x", "granted b"]);
    expect(script.world.work.find(({ sequence }) => sequence === 2)).toMatchObject({ createdAtMs: 0, preemptedFor: 3 });
  });

  it("lets a victim stay if its owner has not begun to end it when the beneficiary is cancelled", () => {
    const script = start();
    expect(script.does("release", "x")).toEqual(["released x", "withdrawn b"]);
    expect(script.does("accept", "b")).toEqual([]);
    expect(script.does("requeue", "b")).toEqual([]);
  });

  it("keeps vacated machines for a beneficiary when another one is cancelled and its victim stays", () => {
    const script = new Script([queue("own", 0, { withinQueue: "LowerPriority" })], 5, 5);
    script.reserve("p", "own", 5, { priority: -1 });
    script.reserve("q", "own", 3, { priority: -1 });
    expect(script.reserve("x", "own", 5, { priority: 1 })).toEqual(["preempted q for x: WITHIN_QUEUE, 30000 ms"]);
    script.does("accept", "q");
    expect(script.reserve("z", undefined, 1)).toEqual([]);
    expect(script.reserve("y", "own", 1, { priority: 1 })).toEqual(["preempted p for y: WITHIN_QUEUE, 30000 ms"]);
    expect(script.does("release", "y")).toEqual(["released y", "withdrawn p"]);
    expect(script.does("requeue", "q")).toEqual(["requeued q", "granted x"]);
  });

  it("counts vacated machines without a beneficiary as free for the first request in order", () => {
    const script = start();
    script.does("accept", "b");
    expect(script.does("release", "x")).toEqual(["released x"]);
    expect(script.reserve("y", "left", 6)).toEqual([]);
    expect(script.does("requeue", "b")).toEqual(["requeued b", "granted y"]);
  });

  it("lets a victim stay when its beneficiary gets other machines", () => {
    const script = start();
    expect(script.does("release", "a")).toEqual(["released a", "granted x", "withdrawn b"]);
  });

  it("lets one victim serve several requests", () => {
    const script = new Script(leftRight({ reclaim: "Any" }));
    script.reserve("a", "right", 8);
    expect(script.reserve("x", "left", 3)).toEqual(["preempted a for x: RECLAIM, 30000 ms"]);
    expect(script.reserve("y", "left", 3)).toEqual([]);
    expect(script.does("requeue", "a")).toEqual(["requeued a", "granted x", "granted y"]);
  });

  it("preempts for the next request if the vacated machines do not suffice for both", () => {
    const script = start([queue("root", 0), queue("root/left", 8, { reclaim: "Any" }), queue("root/right", 2)]);
    // 2 cpu and the 4 of b are for x.
    expect(script.reserve("y", "left", 2)).toEqual(["preempted a for y: RECLAIM, 31000 ms"]);
    expect(script.does("requeue", "a")).toEqual(["requeued a", "granted y"]);
    expect(script.does("requeue", "b")).toEqual(["requeued b", "granted x"]);
  });

  it("does not preempt for a victim the work that it was preempted for", () => {
    const queues = [queue("root/left", 2, { fairSharing: "Any" }), queue("root/right", 4, { reclaim: "Any" })];
    const script = new Script([queue("root", 0), ...queues, queue("root/mid", 2)]);
    script.reserve("m", "mid", 2);
    script.reserve("a", "right", 2);
    script.reserve("v", "right", 4);
    expect(script.reserve("x", "left", 3)).toEqual(["preempted v for x: FAIR_SHARING, 30000 ms"]);
    expect(script.does("requeue", "v")).toEqual(["requeued v", "granted x"]);
    // Now v is within its own quota, and x borrows 1 of that quota.
    expect(script.does("release", "a")).toEqual(["released a"]);
    expect(script.reserve("w", "right", 4)).toEqual(["preempted x for w: RECLAIM, 30000 ms"]);
  });

  it("preempts as soon as the minimum run time is over", () => {
    const script = new Script(leftRight({ reclaim: "Any" }, { minRunTimeMs: 1000 }));
    script.reserve("a", "right", 8);
    expect(script.reserve("x", "left", 3)).toEqual([]);
    expect(script.wait(999)).toEqual([]);
    expect(script.wait(1)).toEqual(["preempted a for x: RECLAIM, 31000 ms"]);
  });
});

describe("a history", () => {
  const at = { atMs: 0 };
  const preempted = (sequence: number, beneficiary: number): PreemptionEvent => {
    return { kind: "preempted", sequence, beneficiary, reason: "RECLAIM", deadlineMs: 1, ...at };
  };
  const event = (kind: "requested" | "released" | "accepted" | "withdrawn" | "requeued", sequence: number) => {
    return { kind, sequence, ...at } as const;
  };
  const granted = (sequence: number): PreemptionEvent => ({ kind: "granted", sequence, nodes: [], ...at });
  const start = [event("requested", 1), granted(1), event("requested", 2), preempted(1, 2)];

  it.each<[title: string, more: readonly PreemptionEvent[], faults: readonly string[]]>([
    ["that is sound has no fault", [event("accepted", 1), event("requeued", 1), granted(2)], []],
    [
      "shows ping-pong",
      [event("requeued", 1), granted(2), preempted(2, 1)],
      ["preempted 2: its beneficiary left for it"],
    ],
    ["shows work that is preempted twice", [preempted(1, 2)], ["preempted 1: it is not granted, or leaves already"]],
    [
      "shows a beneficiary that has its machines",
      [granted(2), event("requested", 3), granted(3), preempted(3, 2)],
      ["preempted 3: its beneficiary does not wait"],
    ],
    [
      "shows what is withdrawn although its owner ends it",
      [event("accepted", 1), event("released", 2), event("withdrawn", 1)],
      ["withdrawn 1: it is not preempted, or its owner has begun to end it"],
    ],
    [
      "shows what is withdrawn although the beneficiary waits",
      [event("withdrawn", 1)],
      ["withdrawn 1: its beneficiary waits"],
    ],
    [
      "shows what waits again without being preempted",
      [event("requeued", 1), event("requeued", 1)],
      ["requeued 1: it is not preempted"],
    ],
    ["shows what is granted twice", [granted(1)], ["granted 1: it does not wait"]],
  ])("%s", (_title, more, faults) => {
    expect(listFaults([...start, ...more])).toEqual(faults);
  });

  it("lists the beneficiaries that are not served, and those that wait although no work leaves", () => {
    expect([listUnserved(start), listForgotten(start)]).toEqual([[2], []]);
    const left = [...start, event("requeued", 1)];
    expect([listUnserved(left), listForgotten(left)]).toEqual([[2], [2]]);
    const served = [...left, granted(2)];
    expect([listUnserved(served), listForgotten(served)]).toEqual([[], []]);
  });
});

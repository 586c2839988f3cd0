import { describe, expect, it } from "vitest";
import { askForCpu, explainRequest, startWithQueues } from "../../../test/queue-run.ts";
import {
  toAmounts,
  makeNode,
  makeOwner,
  makeParts,
  policy,
  makeQueue,
  makeRequest,
  startRun,
  stepRun,
  type LedgerRun,
} from "../../../test/random-world.ts";
import type { ReservationRequest } from "./check-request.ts";
import { buildDemand } from "./build-demand.ts";
import type { Verdict } from "./decide-reservation.ts";
import { buildQueuePage } from "./list-queues.ts";
import { entryCodec } from "../../adapters/messages.ts";
import { MAX_CHANGE_BYTES, planQueueChanges } from "./plan-queue-changes.ts";
import { findReservation } from "../ledger/ledger.ts";
import type { Queue } from "../ledger/queue.ts";

const CPU = "a cpu";
const GPU = "a example.com/gpu";

/** One node of pool a with room for every request, so that only quota and order decide. */
const BIG = makeNode("n0", "a", { allocatable: toAmounts({ cpu: 1000, "example.com/gpu": 1000, pods: 1000 }) });

function worldOf(...queues: readonly Queue[]): LedgerRun {
  return startWithQueues([BIG], queues);
}

/** Requests one part with this cpu. */
function ask(
  run: LedgerRun,
  id: string,
  queue: string | undefined,
  cpu: number,
  more: Partial<ReservationRequest> = {},
) {
  return sayVerdict(askForCpu(run, id, cpu, { ...(queue !== undefined && { queue }), ...more }));
}

function sayVerdict(verdict: Verdict | undefined): string {
  if (verdict?.kind === "refuse") return verdict.fault.code;
  return verdict === undefined ? "" : verdict.kind === "queue" ? verdict.because : verdict.kind;
}

function release(run: LedgerRun, id: string): void {
  stepRun(run, { kind: "release", owner: makeOwner(id, "job") });
}

/** The ids of granted requests, in the order of their grants. */
function granted(run: LedgerRun): string[] {
  const { reservations } = run.world.ledger;
  return run.events.flatMap((event) => {
    const reservation = event.kind === "granted" ? reservations.get(event.sequence) : undefined;
    return reservation === undefined ? [] : [reservation.owner.id.slice(1)];
  });
}

describe("a queue with a quota", () => {
  it("grants up to its quota, and reports the numbers for requests beyond it", () => {
    const run = worldOf(makeQueue("ai", { [CPU]: 10 }));
    expect(ask(run, "x", "ai", 6)).toBe("grant");
    expect(ask(run, "y", "ai", 6)).toBe("WAITING_FOR_QUOTA");
    expect(explainRequest(run, "y").because).toMatchObject({
      code: "WAITING_FOR_QUOTA",
      queue: "ai",
      quota: { pool: "a", resource: "cpu", requested: 6, available: 4 },
    });
    expect(explainRequest(run, "y").message).toBe("queue ai can get 4m of cpu in pool a now, 6m are needed");
    release(run, "x");
    expect(granted(run)).toEqual(["y"]);
  });

  it("refuses requests that it can never grant", () => {
    const run = worldOf(
      makeQueue("root", { [CPU]: 5 }),
      makeQueue("ai", { [CPU]: { nominal: 10, borrowingLimit: 3 } }, { parent: "root" }),
    );
    expect(ask(run, "x", "ai", 13)).toBe("grant");
    expect(ask(run, "y", "ai", 14)).toBe("quota_exceeded");
  });

  it("uses only the resources that it names", () => {
    const run = worldOf(makeQueue("root", { [GPU]: 4 }), makeQueue("ai", { [CPU]: 10 }, { parent: "root" }));
    const needs = makeParts("a", { cpu: 1, "example.com/gpu": 1 });
    const request = makeRequest("x", [], { needs, queue: "ai" });
    expect(stepRun(run, { kind: "reserve", request })).toMatchObject({
      fault: { code: "quota_exceeded", resource: "example.com/gpu", requested: 1, most: 0 },
    });
  });

  it("limits ephemeral storage only where it names it", () => {
    const disk = "a ephemeral-storage";
    const run = startWithQueues(
      [makeNode("n0", "a", { allocatable: toAmounts({ cpu: 100, "ephemeral-storage": 100, pods: 100 }) })],
      [makeQueue("ai", { [CPU]: 10, [disk]: 5 }), makeQueue("web", { [CPU]: 10 })],
    );
    const askDisk = (id: string, queue: string) => {
      const needs = makeParts("a", { cpu: 1, "ephemeral-storage": 4 });
      return sayVerdict(stepRun(run, { kind: "reserve", request: makeRequest(id, [], { needs, queue }) }));
    };
    expect([askDisk("x", "ai"), askDisk("y", "ai")]).toEqual(["grant", "WAITING_FOR_QUOTA"]);
    expect([askDisk("v", "web"), askDisk("w", "web")]).toEqual(["grant", "grant"]);
  });

  it("limits pods only where it names them", () => {
    const run = worldOf(makeQueue("ai", { [CPU]: 10, "a pods": 1 }), makeQueue("web", { [CPU]: 10 }));
    expect(ask(run, "x", "ai", 1)).toBe("grant");
    expect(ask(run, "y", "ai", 1)).toBe("WAITING_FOR_QUOTA");
    expect(ask(run, "v", "web", 1)).toBe("grant");
    expect(ask(run, "w", "web", 1)).toBe("grant");
  });

  it("lowers priorities above its maximum", () => {
    const run = worldOf(makeQueue("ai", { [CPU]: 1 }, { maxPriority: 5 }));
    ask(run, "x", "ai", 1);
    ask(run, "y", "ai", 1, { priority: 5 });
    ask(run, "z", "ai", 1, { priority: 9 });
    expect(findReservation(run.world.ledger, makeOwner("z", "job"))?.priority).toBe(5);
    release(run, "x");
    expect(granted(run)).toEqual(["y"]);
  });

  it("counts a whole machine with its allocatable amounts at the time of the grant", () => {
    const run = startRun([
      makeNode("small", "a"),
      makeNode("w", "a", { allocatable: toAmounts({ cpu: 20, memory: 16, pods: 5 }) }),
    ]);
    stepRun(run, { kind: "queue", queue: makeQueue("ai", { [CPU]: 20, "a memory": 100 }) });
    expect(sayVerdict(stepRun(run, { kind: "reserve", request: makeRequest("x", ["a"], { queue: "ai" }) }))).toBe(
      "grant",
    );
    // The other machine has 20 cpu, and only 12 of the quota are left.
    expect(sayVerdict(stepRun(run, { kind: "reserve", request: makeRequest("y", ["a"], { queue: "ai" }) }))).toBe(
      "WAITING_FOR_QUOTA",
    );
    stepRun(run, {
      kind: "node",
      facts: makeNode("small", "a", { allocatable: toAmounts({ cpu: 2, memory: 1, pods: 5 }) }),
    });
    expect(buildQueuePage(run.world, { limit: 10 }).reports[0]?.used.get(CPU)).toBe(8);
  });

  it("checks with the smallest machine of the pool whether a whole machine can ever be granted", () => {
    const size = (cpu: number) => ({ allocatable: toAmounts({ cpu, pods: 5 }) });
    const run = startWithQueues(
      [makeNode("n0", "a", size(4)), makeNode("n1", "a", size(20))],
      [makeQueue("ai", { [CPU]: 4 }), makeQueue("web", { [CPU]: 3 })],
    );
    const askWhole = (id: string, queue?: string) =>
      sayVerdict(stepRun(run, { kind: "reserve", request: makeRequest(id, ["a"], { ...(queue && { queue }) }) }));
    expect(askWhole("x")).toBe("grant");
    expect(askWhole("y", "ai")).toBe("WAITING_FOR_QUOTA");
    expect(askWhole("z", "web")).toBe("quota_exceeded");
    stepRun(run, { kind: "release", owner: makeOwner("x") });
    expect(granted(run)).toContain("y");
  });

  it("keeps the use of a grant in the pool that the grant names", () => {
    const large = { allocatable: toAmounts({ cpu: 8, pods: 5 }) };
    const quotas = { [CPU]: 4, "b cpu": 4 };
    const run = startWithQueues([makeNode("n0", "a", large)], [makeQueue("ai", quotas)]);
    expect(ask(run, "x", "ai", 4)).toBe("grant");
    stepRun(run, { kind: "node", facts: makeNode("n0", "b", large) });
    stepRun(run, { kind: "node", facts: makeNode("n1", "a", large) });
    const used = buildQueuePage(run.world, { limit: 10 }).reports[0]?.used;
    expect([used?.get(CPU), used?.get("b cpu")]).toEqual([4, undefined]);
    expect(ask(run, "y", "ai", 1)).toBe("WAITING_FOR_QUOTA");
    release(run, "x");
    expect(granted(run)).toContain("y");
  });

  it("does not limit requests without a queue", () => {
    const run = worldOf(makeQueue("ai", { [CPU]: 1 }));
    expect(ask(run, "x", undefined, 900)).toBe("grant");
    expect(ask(run, "y", "ai", 1)).toBe("grant");
  });
});

describe("borrowing", () => {
  const tree = (more: Partial<Queue> = {}): Queue[] => [
    makeQueue("all"),
    makeQueue("ai", { [CPU]: 10 }, { parent: "all" }),
    makeQueue("web", { [CPU]: 10 }, { parent: "all", ...more }),
  ];

  it("uses quota that the other queues of the tree leave free", () => {
    const run = worldOf(...tree());
    expect(ask(run, "x", "ai", 20)).toBe("grant");
    expect(ask(run, "y", "web", 1)).toBe("WAITING_FOR_QUOTA");
    const [ai, all, web] = buildQueuePage(run.world, { limit: 10 }).reports;
    expect(buildQueuePage(run.world, { name: "web", limit: 10 })).toEqual({ reports: [web], next: undefined });
    expect(buildQueuePage(run.world, { name: "we", limit: 10 }).reports).toEqual([]);
    expect(ai).toMatchObject({
      used: new Map([[CPU, 20]]),
      borrowed: new Map([[CPU, 10]]),
      admitted: 1,
    });
    expect(ai?.shareMillionths).toBe(500_000);
    expect(all).toMatchObject({ quota: new Map([[CPU, 20]]), borrowed: new Map() });
    expect(web).toMatchObject({ pending: 1, admitted: 0, shareMillionths: 0 });
  });

  it("counts other pools in the share only if a leaf of the tree may use them", () => {
    const other = makeNode("n1", "b", { allocatable: toAmounts({ cpu: 80, pods: 10 }) });
    const shareWith = (...more: readonly Queue[]): number | undefined => {
      const run = startWithQueues([BIG, other], [...tree(), ...more]);
      expect(ask(run, "x", "ai", 15)).toBe("grant");
      return buildQueuePage(run.world, { name: "ai", limit: 1 }).reports[0]?.shareMillionths;
    };
    expect(shareWith()).toBe(250_000);
    expect(shareWith(makeQueue("any", {}, { parent: "all" }))).toBe(50_000);
  });

  it("does not use quota that a queue does not lend", () => {
    const run = worldOf(...tree({ quotas: new Map([[CPU, { nominal: 10, lendingLimit: 4 }]]) }));
    expect(ask(run, "x", "ai", 15)).toBe("quota_exceeded");
    expect(ask(run, "y", "ai", 14)).toBe("grant");
    expect(ask(run, "z", "web", 6)).toBe("grant");
    expect(ask(run, "w", "web", 1)).toBe("WAITING_FOR_QUOTA");
  });

  it("keeps a queue's own quota: its waiting requests go before requests that would borrow it", () => {
    const run = worldOf(...tree());
    ask(run, "b1", "ai", 6);
    ask(run, "b2", "ai", 6);
    ask(run, "b3", "ai", 4);
    expect(ask(run, "own", "web", 8)).toBe("WAITING_FOR_QUOTA");
    release(run, "b3");
    // Now 8 cpu are free: enough for the owner.
    expect(granted(run)).toEqual(["b1", "b2", "own"]);
    expect(ask(run, "late", "ai", 3)).toBe("WAITING_FOR_QUOTA");
  });

  it("does not let a borrower take quota that its owner waits for", () => {
    const run = worldOf(...tree());
    ask(run, "b1", "ai", 6);
    ask(run, "b2", "ai", 9);
    ask(run, "own", "web", 8);
    // Now 5 cpu are free: too few for the owner, and kept for it.
    expect(ask(run, "b3", "ai", 1)).toBe("KEPT_FOR_OWNER");
    expect(explainRequest(run, "b3").message).toBe(
      "queue ai would have to borrow cpu in pool a, which is kept for a queue that waits for its own",
    );
    expect(ask(run, "small", "web", 2)).toBe("grant");
  });

  it("keeps no quota from borrowers for a request that waits for machines alone", () => {
    const queues = [makeQueue("all"), makeQueue("own", { [CPU]: 10 }, { parent: "all" })];
    const other = makeQueue("other", { [CPU]: 2 }, { parent: "all" });
    const run = startWithQueues([makeNode("n0", "a"), makeNode("n1", "a")], [...queues, other]);
    ask(run, "x", undefined, 5);
    ask(run, "y", undefined, 5);
    expect(ask(run, "large", "own", 8)).toBe("POOL_AVAILABILITY");
    expect(ask(run, "b1", "other", 3)).toBe("grant");
    expect(ask(run, "b2", "other", 3)).toBe("grant");
  });

  it("keeps no quota from borrowers for a queue that may reclaim it from any priority", () => {
    const codeWith = (reclaim: "LowerPriority" | "Any"): string => {
      const [all, ai, web] = tree({ reclaim });
      const run = worldOf(all!, { ...ai!, minRunTimeMs: 1000 }, web!);
      ask(run, "b1", "ai", 15);
      expect(ask(run, "own", "web", 8)).toBe("WAITING_FOR_QUOTA");
      return ask(run, "b2", "ai", 1);
    };
    expect([codeWith("LowerPriority"), codeWith("Any")]).toEqual(["KEPT_FOR_OWNER", "grant"]);
  });

  it("is limited to the pools' allocatable amounts if no queue of the tree has a quota, so weights alone work", () => {
    const run = worldOf(
      makeQueue("all"),
      makeQueue("ai", {}, { parent: "all" }),
      makeQueue("web", {}, { parent: "all", weightMilli: 3000 }),
    );
    for (let index = 0; index < 12; index += 1) {
      ask(run, `i${index}`, "ai", 250);
      ask(run, `w${index}`, "web", 250);
    }
    // The first two requests had no competitor. Then the request whose queue has the lower share by weight is granted.
    for (let index = 0; index < 4; index += 1) release(run, granted(run)[0] ?? "");
    expect(granted(run).filter((name) => name.startsWith("w"))).toHaveLength(3);
    expect(granted(run).filter((name) => name.startsWith("i"))).toHaveLength(1);
  });
});

describe("the order between queues", () => {
  const three = (weights: readonly number[]): Queue[] => [
    makeQueue("all", { [CPU]: 12 }),
    ...weights.map((weightMilli, index) => makeQueue(`q${index}`, {}, { parent: "all", weightMilli })),
  ];

  it("goes by share, so that no team wins by a higher priority", () => {
    const run = worldOf(...three([1000, 1000]));
    ask(run, "x0", "q0", 12);
    for (let index = 0; index < 3; index += 1) {
      ask(run, `a${index}`, "q0", 4, { priority: 100 });
      ask(run, `b${index}`, "q1", 4);
    }
    release(run, "x0");
    expect(granted(run)).toEqual(["a0", "b0", "a1"]);
  });

  it("compares shares in exact fractions, also where floating-point numbers are equal", () => {
    // 1003 * older exceeds 1001 * younger by 1.
    const [older, younger] = [501 + 1001 * 2 ** 41, 502 + 1003 * 2 ** 41];
    const total = 2 ** 52;
    const memory = { allocatable: toAmounts({ memory: total, pods: 10 }) };
    const leaf = (name: string, weightMilli: number) => makeQueue(name, {}, { parent: "all", weightMilli });
    const run = startWithQueues(
      [makeNode("n0", "a", memory)],
      [makeQueue("all", { "a memory": total }), leaf("ai", 1001), leaf("web", 1003), leaf("first", 1000)],
    );
    const askMemory = (id: string, queue: string, amount: number) =>
      stepRun(run, {
        kind: "reserve",
        request: makeRequest(id, [], {
          owner: makeOwner(id, "job"),
          needs: makeParts("a", { memory: amount }),
          queue,
        }),
      });
    askMemory("x", "first", total);
    askMemory("y", "ai", older);
    askMemory("z", "web", younger);
    expect(older / 1001).toBe(younger / 1003);
    release(run, "x");
    expect(granted(run)).toEqual(["z", "y"]);
  });

  it("goes by quota before share: own quota goes before borrowing", () => {
    const run = worldOf(
      makeQueue("all", { [CPU]: 4 }),
      makeQueue("q0", { [CPU]: 4 }, { parent: "all" }),
      makeQueue("q1", {}, { parent: "all" }),
    );
    ask(run, "x", "q1", 8);
    ask(run, "borrow", "q1", 4, { priority: 9 });
    ask(run, "own", "q0", 4);
    release(run, "x");
    expect(granted(run)).toEqual(["own", "borrow"]);
  });

  it("lets a queue of weight 0 borrow only when no other queue has work that fits", () => {
    const run = worldOf(...three([0, 1000]));
    ask(run, "x", "q0", 12);
    ask(run, "zero", "q0", 4, { priority: 9 });
    ask(run, "one", "q1", 4);
    ask(run, "two", "q1", 4);
    release(run, "x");
    expect(granted(run)).toEqual(["one", "two", "zero"]);
  });

  it("is priority, then age inside a queue", () => {
    const run = worldOf(makeQueue("ai", { [CPU]: 4 }));
    ask(run, "x", "ai", 4);
    ask(run, "old", "ai", 2);
    stepRun(run, { kind: "wait", ms: 10 });
    ask(run, "new", "ai", 2);
    ask(run, "high", "ai", 1, { priority: 1 });
    release(run, "x");
    expect(granted(run)).toEqual(["high", "old"]);
  });
});

describe("a StrictFIFO queue", () => {
  it("lets its first request block the others, and no other queue", () => {
    const run = worldOf(makeQueue("s", { [CPU]: 10 }, { strategy: "StrictFIFO" }), makeQueue("b", { [CPU]: 10 }));
    ask(run, "x", "s", 6);
    expect(ask(run, "head", "s", 6)).toBe("WAITING_FOR_QUOTA");
    expect(ask(run, "small", "s", 1)).toBe("BEHIND_STRICT_HEAD");
    expect(explainRequest(run, "small").message).toBe(
      "its queue s is StrictFIFO, and another request is first; 1 request ahead of it",
    );
    expect(ask(run, "other", "b", 1)).toBe("grant");
    release(run, "x");
    expect(granted(run)).toEqual(["other", "head", "small"]);
  });

  it("skips requests that can never fit", () => {
    const strict = makeQueue("s", { [CPU]: 10 }, { strategy: "StrictFIFO" });
    const run = worldOf(strict);
    ask(run, "x", "s", 4);
    ask(run, "head", "s", 9);
    ask(run, "small", "s", 1);
    stepRun(run, { kind: "queue", queue: { ...strict, quotas: new Map([[CPU, { nominal: 8 }]]) } });
    expect(granted(run)).toEqual(["x", "small"]);
  });
});

describe("a queue that admits nothing", () => {
  it.each([
    ["is held", makeQueue("ai", { [CPU]: 9 }, { stopPolicy: "Hold", parent: "all" })],
    ["could not be read", makeQueue("ai", { [CPU]: 9 }, { problem: "spec.weight: is -1", parent: "all" })],
    ["has a parent that is missing", makeQueue("ai", { [CPU]: 9 }, { parent: "gone" })],
    ["is its own parent", makeQueue("ai", { [CPU]: 9 }, { parent: "ai" })],
  ])("keeps its work waiting when it %s, and grants it afterwards", (_why, queue) => {
    const run = worldOf(makeQueue("all"), queue);
    expect(ask(run, "x", "ai", 1)).toBe("QUEUE_HELD");
    expect(explainRequest(run, "x").message).toBe("its queue ai admits nothing at present");
    stepRun(run, { kind: "queue", queue: makeQueue("ai", { [CPU]: 9 }) });
    expect(granted(run)).toEqual(["x"]);
  });

  it("refuses work of a queue that does not exist or has queues below it, and names the leaf queues", () => {
    const run = worldOf(makeQueue("all"), makeQueue("ai", {}, { parent: "all" }));
    const request = makeRequest("x", [], { needs: makeParts("a", { cpu: 1 }), queue: "all" });
    const fault = { code: "queue_unknown", queue: "all", known: ["ai"] };
    expect(stepRun(run, { kind: "reserve", request })).toMatchObject({ fault });
    expect(ask(run, "y", "nosuch", 1)).toBe("queue_unknown");
  });

  it("keeps its waiting requests when it is removed", () => {
    const run = worldOf(makeQueue("ai", { [CPU]: 1 }));
    ask(run, "x", "ai", 1);
    ask(run, "y", "ai", 1);
    stepRun(run, { kind: "unqueue", name: "ai" });
    release(run, "x");
    expect(explainRequest(run, "y").because?.code).toBe("QUEUE_UNKNOWN");
    stepRun(run, { kind: "queue", queue: makeQueue("ai", { [CPU]: 1 }) });
    expect(granted(run)).toEqual(["y"]);
  });
});

it("ends no work when a quota is lowered: the excess counts as borrowed, and nothing more is granted", () => {
  const run = worldOf(
    makeQueue("all"),
    makeQueue("ai", { [CPU]: 10 }, { parent: "all" }),
    makeQueue("web", { [CPU]: 10 }, { parent: "all" }),
  );
  ask(run, "x", "ai", 10);
  stepRun(run, { kind: "queue", queue: makeQueue("ai", { [CPU]: 4 }, { parent: "all" }) });
  expect(granted(run)).toEqual(["x"]);
  expect(buildQueuePage(run.world, { limit: 10 }).reports[0]?.borrowed.get(CPU)).toBe(6);
  expect(ask(run, "y", "web", 5)).toBe("WAITING_FOR_QUOTA");
  expect(ask(run, "z", "web", 4)).toBe("grant");
});

it("ends no work when a queue is moved: the excess counts as borrowed in the other tree, and nothing more is granted", () => {
  const run = worldOf(
    makeQueue("old"),
    makeQueue("new", { [CPU]: 2 }),
    makeQueue("ai", { [CPU]: 4 }, { parent: "old" }),
    makeQueue("web", { [CPU]: 6 }, { parent: "old" }),
  );
  expect(ask(run, "x", "ai", 10)).toBe("grant");
  stepRun(run, { kind: "queue", queue: makeQueue("ai", { [CPU]: 4 }, { parent: "new" }) });
  expect(granted(run)).toEqual(["x"]);
  const { reports } = buildQueuePage(run.world, { limit: 10 });
  const usedBy = (name: string) => reports.find(({ queue }) => queue.name === name);
  expect([usedBy("ai")?.borrowed.get(CPU), usedBy("new")?.used.get(CPU)]).toEqual([6, 10]);
  expect(usedBy("old")?.used.get(CPU) ?? 0).toBe(0);
  expect(ask(run, "y", "ai", 1)).toBe("WAITING_FOR_QUOTA");
  expect(ask(run, "z", "web", 6)).toBe("grant");
});

it("requests no nodes for work that its quota does not admit", () => {
  const run = startRun([]);
  stepRun(run, { kind: "scale", pool: "a", scaling: { pool: "a", max: 5, exhausted: false } });
  stepRun(run, { kind: "queue", queue: makeQueue("ai", { [CPU]: 4 }) });
  for (const id of ["x", "y", "z"]) ask(run, id, "ai", 2);
  const { reports } = buildDemand(run.world, policy, run.nowMs, { pools: [], limit: 10 });
  expect(reports.map(({ reservation }) => reservation.owner.id)).toEqual(["ox", "oy"]);
});

it("keeps machines for an overdue request, but not from other queues whose own quota suffices", () => {
  const run = startRun([makeNode("n0", "a"), makeNode("n1", "a")]);
  stepRun(run, { kind: "queue", queue: makeQueue("all", { [CPU]: 20 }) });
  stepRun(run, { kind: "queue", queue: makeQueue("own", { [CPU]: 8 }, { parent: "all" }) });
  stepRun(run, { kind: "queue", queue: makeQueue("borrowing", {}, { parent: "all" }) });
  ask(run, "x", undefined, 8);
  ask(run, "y", undefined, 5);
  expect(ask(run, "large", "borrowing", 8)).toBe("POOL_AVAILABILITY");
  stepRun(run, { kind: "wait", ms: policy.holdAfterMs + 1 });
  expect(ask(run, "small", "borrowing", 1)).toBe("HELD_FOR_OLDER");
  expect(ask(run, "mine", "own", 2)).toBe("grant");
});

describe("an overdue request", () => {
  it("keeps the quota that its queue owns from later requests of the queue", () => {
    const run = worldOf(makeQueue("ai", { [CPU]: 10 }));
    for (let index = 0; index < 10; index += 1) ask(run, `s${index}`, "ai", 1);
    ask(run, "large", "ai", 10);
    release(run, "s0");
    expect(ask(run, "passing", "ai", 1)).toBe("grant");
    stepRun(run, { kind: "wait", ms: policy.holdAfterMs + 1 });
    release(run, "passing");
    expect(ask(run, "late", "ai", 1)).toBe("WAITING_FOR_QUOTA");
    for (let index = 1; index < 10; index += 1) release(run, `s${index}`);
    expect(granted(run)).toEqual(["large"]);
  });

  it("loses no quota to its queue while it waits for a machine", () => {
    const run = startRun([makeNode("n0", "a"), makeNode("n1", "a")]);
    stepRun(run, { kind: "queue", queue: makeQueue("ai", { [CPU]: 8 }) });
    ask(run, "x", undefined, 5);
    ask(run, "y", undefined, 5);
    expect(ask(run, "large", "ai", 8)).toBe("POOL_AVAILABILITY");
    stepRun(run, { kind: "wait", ms: policy.holdAfterMs + 1 });
    expect(ask(run, "small", "ai", 1)).toBe("WAITING_FOR_QUOTA");
    release(run, "x");
    expect(granted(run)).toEqual(["y", "large"]);
  });

  it("goes before a borrower although a later request of its queue uses what its queue owns", () => {
    const run = startRun(
      ["n0", "n1"].map((name) => makeNode(name, "a", { allocatable: toAmounts({ cpu: 4, pods: 9 }) })),
    );
    stepRun(run, { kind: "queue", queue: makeQueue("all", { [CPU]: 1 }) });
    stepRun(run, { kind: "queue", queue: makeQueue("own", { [CPU]: 4 }, { parent: "all" }) });
    stepRun(run, { kind: "queue", queue: makeQueue("other", { [CPU]: 3 }, { parent: "all" }) });
    for (const id of ["x", "y"]) ask(run, id, undefined, 3);
    expect(ask(run, "large", "own", 4)).toBe("POOL_AVAILABILITY");
    stepRun(run, { kind: "wait", ms: policy.holdAfterMs + 1 });
    expect(ask(run, "late", "own", 1)).toBe("grant");
    // Both requests would borrow 1, and this one has a higher priority.
    ask(run, "borrower", "other", 4, { priority: 9 });
    release(run, "x");
    release(run, "y");
    expect(granted(run)).toEqual(["late", "large"]);
  });

  it("keeps its quota from borrowers while machines are kept for it", () => {
    const run = startRun(
      ["n0", "n1"].map((name) => makeNode(name, "a", { allocatable: toAmounts({ cpu: 4, pods: 9 }) })),
    );
    stepRun(run, { kind: "queue", queue: makeQueue("all") });
    stepRun(run, { kind: "queue", queue: makeQueue("own", { [CPU]: 4 }, { parent: "all" }) });
    stepRun(run, { kind: "queue", queue: makeQueue("other", { [CPU]: 1 }, { parent: "all" }) });
    for (const id of ["x", "y"]) ask(run, id, undefined, 3);
    expect(ask(run, "large", "own", 4)).toBe("POOL_AVAILABILITY");
    stepRun(run, { kind: "wait", ms: policy.holdAfterMs + 1 });
    expect(ask(run, "inside", "other", 1)).toBe("grant");
    release(run, "inside");
    expect(ask(run, "borrower", "other", 2)).toBe("KEPT_FOR_OWNER");
    release(run, "x");
    expect(granted(run)).toEqual(["y", "large"]);
  });

  it("keeps no quota that its concurrency limit prevents it from using", () => {
    const run = worldOf(makeQueue("ai", { [CPU]: 10 }));
    stepRun(run, { kind: "limit", ownerKind: "session", limit: 1 });
    ask(run, "first", undefined, 1, { owner: makeOwner("first"), concurrencyLimit: 1 });
    expect(ask(run, "capped", "ai", 10, { owner: makeOwner("capped"), concurrencyLimit: 1 })).toBe("CONCURRENCY_LIMIT");
    stepRun(run, { kind: "wait", ms: policy.holdAfterMs + 1 });
    expect(ask(run, "small", "ai", 1)).toBe("grant");
  });
});

it("keeps no quota from borrowers if no machine can hold it any more", () => {
  const small = (name: string) => makeNode(name, "a", { allocatable: toAmounts({ cpu: 4, pods: 100 }) });
  const run = startRun([BIG, small("n1")]);
  stepRun(run, { kind: "queue", queue: makeQueue("all") });
  stepRun(run, { kind: "queue", queue: makeQueue("own", { [CPU]: 10 }, { parent: "all" }) });
  stepRun(run, { kind: "queue", queue: makeQueue("none", { [CPU]: 0 }, { parent: "all" }) });
  ask(run, "b1", "none", 4);
  expect(ask(run, "large", "own", 8)).toBe("WAITING_FOR_QUOTA");
  expect(ask(run, "b2", "none", 3)).toBe("KEPT_FOR_OWNER");
  stepRun(run, { kind: "lose", node: "n0" });
  stepRun(run, { kind: "node", facts: small("n2") });
  expect(granted(run)).toEqual(["b1", "b2"]);
});

it("shares a tree by the queues of each level, at any depth", () => {
  const run = worldOf(
    makeQueue("root", { [CPU]: 10 }),
    makeQueue("org", {}, { parent: "root" }),
    makeQueue("deep", {}, { parent: "org" }),
    makeQueue("flat", {}, { parent: "root" }),
  );
  ask(run, "x", "flat", 10);
  for (let index = 0; index < 10; index += 1)
    for (const queue of ["deep", "flat"]) ask(run, `${queue}${index}`, queue, 1);
  release(run, "x");
  expect(granted(run).filter((id) => id.startsWith("deep"))).toHaveLength(5);
});

it("puts a queue of weight 0 last, at any depth", () => {
  const run = worldOf(
    makeQueue("root", { [CPU]: 10 }),
    makeQueue("inner", {}, { parent: "root" }),
    makeQueue("zero", {}, { parent: "inner", weightMilli: 0 }),
    makeQueue("other", {}, { parent: "root" }),
  );
  ask(run, "x", "other", 10);
  ask(run, "zero", "zero", 4, { priority: 9 });
  for (const id of ["a", "b"]) ask(run, id, "other", 4);
  release(run, "x");
  expect(granted(run)).toEqual(["a", "b"]);
});

it("has unlimited quota in an empty pool that may grow, so the pool gets its first node", () => {
  const run = startRun([]);
  stepRun(run, { kind: "scale", pool: "a", scaling: { pool: "a", max: 10, exhausted: false } });
  stepRun(run, { kind: "queue", queue: makeQueue("ai") });
  expect(ask(run, "x", "ai", 4)).toBe("POOL_AVAILABILITY");
});

it("requests the nodes of a StrictFIFO queue in one batch, in its order, as far as its quota admits it", () => {
  const run = startRun([]);
  stepRun(run, { kind: "scale", pool: "a", scaling: { pool: "a", max: 9, exhausted: false } });
  stepRun(run, { kind: "queue", queue: makeQueue("ai", { [CPU]: 9 }, { strategy: "StrictFIFO" }) });
  for (const [id, cpu] of [
    ["x", 4],
    ["y", 4],
    ["z", 4],
    ["small", 1],
  ] as const)
    ask(run, id, "ai", cpu);
  const { reports } = buildDemand(run.world, policy, run.nowMs, { pools: [], limit: 10 });
  expect(reports.map(({ reservation }) => reservation.owner.id)).toEqual(["ox", "oy"]);
});

it("admits nothing to queues that are nested too deeply", () => {
  const chain = Array.from({ length: 18 }, (_, index) =>
    makeQueue(`q${index}`, index === 0 ? { [CPU]: 9 } : {}, index === 0 ? {} : { parent: `q${index - 1}` }),
  );
  const run = worldOf(...chain);
  expect(ask(run, "x", "q17", 1)).toBe("QUEUE_HELD");
  expect(buildQueuePage(run.world, { after: "q16", limit: 1 }).reports[0]).toMatchObject({ problem: "TOO_DEEP" });
});

it("follows at most as many queues as one log entry holds", () => {
  const pairs = Object.fromEntries(Array.from({ length: 200 }, (_, index) => [`pool-${index} ${"r".repeat(240)}`, 1]));
  const stated = Array.from({ length: 20 }, (_, index) => makeQueue(`q${index}`, pairs));
  const run = startRun([]);
  let entries = 0;
  for (let isComplete = false; !isComplete; entries += 1) {
    const { events, complete } = planQueueChanges(stated, run.world.ledger.queues, 0);
    expect(entryCodec.encode(events).length).toBeLessThan(MAX_CHANGE_BYTES);
    for (const event of events) if (event.kind === "queueChanged") stepRun(run, { kind: "queue", queue: event.queue });
    isComplete = complete;
  }
  expect(entries).toBe(4);
  expect(planQueueChanges(stated, run.world.ledger.queues, 0)).toEqual({ events: [], complete: true });
});

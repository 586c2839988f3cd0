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
  stepRun,
  type LedgerRun,
} from "../../../test/random-world.ts";
import { findReservation } from "../ledger/ledger.ts";
import type { NodeFacts } from "../ledger/machines.ts";
import type { Queue } from "../ledger/queue.ts";
import type { ReservationRequest } from "./check-request.ts";
import { buildDemand } from "./build-demand.ts";

const CPU = "a cpu";
const BIG = makeNode("n0", "a", { allocatable: toAmounts({ cpu: 1000, pods: 1000 }) });

function worldOf(queues: readonly Queue[], nodes: readonly NodeFacts[] = [BIG]): LedgerRun {
  return startWithQueues(nodes, queues);
}

/** Requests one part with this cpu. */
function ask(run: LedgerRun, id: string, queue: string, cpu: number, more: Partial<ReservationRequest> = {}): void {
  stepRun(run, { kind: "wait", ms: 1 });
  askForCpu(run, id, cpu, { queue, ...more });
}

function end(run: LedgerRun, id: string): void {
  stepRun(run, { kind: "release", owner: makeOwner(id, "job") });
}

function accept(run: LedgerRun, id: string): void {
  stepRun(run, { kind: "accept", owner: makeOwner(id, "job") });
}

function requeue(run: LedgerRun, id: string): void {
  stepRun(run, { kind: "requeue", owner: makeOwner(id, "job") });
}

/** Lists in the order of submission: `x` waits, `X` is granted, `X>y` is preempted for y. */
function show({ world: { ledger } }: LedgerRun): string {
  const nameOf = (sequence: number): string => ledger.reservations.get(sequence)?.owner.id.slice(1) ?? "nothing";
  return [...ledger.reservations.values()]
    .map(({ sequence, grant }) => {
      if (grant === undefined) return nameOf(sequence);
      const { preemption } = grant;
      const { beneficiary } = preemption ?? {};
      const target = preemption && `>${beneficiary === undefined ? preemption.reason : nameOf(beneficiary)}`;
      return `${nameOf(sequence).toUpperCase()}${target ?? ""}`;
    })
    .join(" ");
}

const root = makeQueue("root", {});
const owner = makeQueue("owner", { [CPU]: 10 }, { parent: "root", reclaim: "Any" });
const borrower = makeQueue("borrower", { [CPU]: 10 }, { parent: "root" });

describe("reclaiming", () => {
  it("preempts work of queues that borrow the queue's quota, and no other work", () => {
    const run = worldOf([root, owner, borrower]);
    ask(run, "p", "borrower", 10);
    ask(run, "q", "borrower", 10);
    ask(run, "x", "owner", 10);
    expect(show(run)).toBe("P Q>x x");
    expect(explainRequest(run, "x")).toMatchObject({
      because: { code: "WAITING_FOR_PREEMPTED", queue: "owner" },
      message: "work that is preempted for it has not ended yet; waits for job oq (1 part)",
      preempted: { listed: [{ owner: makeOwner("q", "job"), reason: "RECLAIM" }], more: 0 },
    });
    accept(run, "q");
    requeue(run, "q");
    expect(show(run)).toBe("P q X");
  });

  it("preempts nothing if that would not be enough", () => {
    const run = worldOf(
      [root, owner, borrower],
      [makeNode("n0", "a", { allocatable: toAmounts({ cpu: 20, pods: 9 }) })],
    );
    ask(run, "p", "borrower", 10);
    ask(run, "q", "borrower", 5);
    ask(run, "y", "owner", 5);
    ask(run, "x", "owner", 10);
    expect(show(run)).toBe("P Q Y x");
  });

  it("preempts members beyond the minimum of their jobs first, those of other queues before its own, and only then work", () => {
    const beyondMinimum = true as const;
    const preempting = makeQueue("owner", { [CPU]: 10 }, { parent: "root", reclaim: "Any", withinQueue: "Any" });
    const run = worldOf([root, preempting, makeQueue("borrower", { [CPU]: 6 }, { parent: "root" })]);
    ask(run, "p", "borrower", 4);
    ask(run, "q", "borrower", 4, { priority: 9, beyondMinimum });
    ask(run, "r", "owner", 4, { priority: -1, beyondMinimum });
    ask(run, "s", "borrower", 4);
    expect(show(run)).toBe("P Q R S");
    ask(run, "x", "owner", 4);
    expect(show(run)).toBe("P Q>x R S x");
    ask(run, "y", "owner", 2);
    expect(show(run)).toBe("P Q>x R>y S x y");
    ask(run, "z", "owner", 4);
    expect(show(run)).toBe("P Q>x R>y S>z x y z");
  });

  it("preempts the lowest priority first, then the youngest, and spares what is not needed", () => {
    const run = worldOf([root, owner, makeQueue("borrower", {}, { parent: "root" })]);
    stepRun(run, { kind: "queue", queue: makeQueue("root", { [CPU]: 10 }) });
    ask(run, "p", "borrower", 4, { priority: 1 });
    ask(run, "q", "borrower", 1);
    ask(run, "r", "borrower", 4);
    ask(run, "s", "borrower", 4);
    ask(run, "t", "borrower", 7, { priority: 2 });
    expect(show(run)).toBe("P Q R S T");
    ask(run, "x", "owner", 8);
    expect(show(run)).toBe("P Q R>x S>x T x");
  });

  it("preempts nothing without a policy, and only lower priorities with LowerPriority", () => {
    const run = worldOf([root, { ...owner, reclaim: "LowerPriority" }, borrower]);
    ask(run, "p", "borrower", 10);
    ask(run, "q", "borrower", 10);
    ask(run, "x", "owner", 5);
    expect(show(run)).toBe("P Q x");
    ask(run, "y", "owner", 5, { priority: 1 });
    expect(show(run)).toBe("P Q>y x y");
  });

  it("keeps vacated machines for the beneficiary when other requests arrive", () => {
    const run = worldOf(
      [root, owner, borrower],
      [makeNode("n0", "a", { allocatable: toAmounts({ cpu: 20, pods: 9 }) })],
    );
    ask(run, "p", "borrower", 10);
    ask(run, "q", "borrower", 10);
    ask(run, "x", "owner", 10);
    accept(run, "q");
    ask(run, "y", "owner", 10, { priority: 9 });
    ask(run, "z", "borrower", 10, { priority: 9 });
    requeue(run, "q");
    expect(show(run)).toBe("P q X y z");
  });

  it("keeps whole machines and room for the beneficiary, and lets others use the rest", () => {
    const nodes = ["n0", "n1"].map((name) => makeNode(name, "a", { allocatable: toAmounts({ cpu: 10, pods: 9 }) }));
    const run = worldOf([root, makeQueue("owner", { [CPU]: 12 }, { parent: "root", reclaim: "Any" }), borrower], nodes);
    ask(run, "p", "borrower", 9);
    ask(run, "q", "borrower", 3);
    ask(run, "x", "owner", 8);
    expect(show(run)).toBe("P Q>x x");
    accept(run, "q");
    ask(run, "y", "owner", 2);
    ask(run, "z", "owner", 2);
    expect(show(run)).toBe("P Q>x x Y z");
    requeue(run, "q");
    expect(show(run)).toBe("P q X Y z");
  });
});

it("keeps no quota for a request that would borrow once the beneficiary of its queue is granted", () => {
  const own = makeQueue("own", { [CPU]: 6 }, { parent: "root", reclaim: "LowerPriority" });
  const lender = makeQueue("lender", { [CPU]: 8 }, { parent: "root" });
  const run = worldOf([root, own, lender, makeQueue("other", {}, { parent: "root" })]);
  ask(run, "p", "lender", 5, { priority: -1 });
  ask(run, "q", "lender", 8, { priority: -1 });
  ask(run, "x", "own", 5);
  ask(run, "y", "own", 4, { priority: -1 });
  ask(run, "z", "other", 1, { priority: -1 });
  expect(show(run)).toBe("P Q>x x y Z");
});

describe("the end of a preemption", () => {
  it("spares work whose beneficiary was released before the work's owner began to end it", () => {
    const run = worldOf([root, owner, borrower]);
    ask(run, "p", "borrower", 10);
    ask(run, "q", "borrower", 10);
    ask(run, "x", "owner", 10);
    end(run, "x");
    expect(show(run)).toBe("P Q");
    accept(run, "q");
    expect(show(run)).toBe("P Q");
    expect(findReservation(run.world.ledger, makeOwner("q", "job"))?.revision).toBe(2);
  });

  it("grants vacated machines without a beneficiary to the first request in order", () => {
    const run = worldOf([root, owner, borrower]);
    ask(run, "p", "borrower", 10);
    ask(run, "q", "borrower", 10);
    ask(run, "x", "owner", 10);
    accept(run, "q");
    end(run, "x");
    expect(show(run)).toBe("P Q>nothing");
    ask(run, "y", "owner", 10);
    expect(show(run)).toBe("P Q>nothing y");
    requeue(run, "q");
    expect(show(run)).toBe("P q Y");
  });

  it("spares work when its beneficiary gets other machines", () => {
    const run = worldOf([root, owner, borrower]);
    ask(run, "p", "borrower", 10);
    ask(run, "q", "borrower", 10);
    ask(run, "x", "owner", 10);
    end(run, "p");
    expect(show(run)).toBe("Q X");
  });

  it("returns the work to its old place", () => {
    const run = worldOf([root, owner, borrower]);
    ask(run, "p", "borrower", 10);
    ask(run, "q", "borrower", 10);
    ask(run, "x", "owner", 10);
    ask(run, "y", "borrower", 10);
    requeue(run, "q");
    end(run, "x");
    expect(show(run)).toBe("P Q y");
    expect(findReservation(run.world.ledger, makeOwner("q", "job"))).toMatchObject({ sequence: 2, createdAtMs: 2 });
  });

  it("serves several requests with one victim", () => {
    const run = worldOf([root, owner, borrower]);
    ask(run, "p", "borrower", 10);
    ask(run, "q", "borrower", 10);
    ask(run, "x", "owner", 4);
    ask(run, "y", "owner", 4);
    expect(show(run)).toBe("P Q>x x y");
    expect(explainRequest(run, "y").because?.code).toBe("WAITING_FOR_QUOTA");
    requeue(run, "q");
    expect(show(run)).toBe("P q X Y");
  });

  it("keeps vacated machines for a beneficiary when another one is cancelled and its victim stays", () => {
    const nodes = ["n0", "n1"].map((name) => makeNode(name, "a", { allocatable: toAmounts({ cpu: 5, pods: 9 }) }));
    const run = worldOf([makeQueue("own", {}, { withinQueue: "LowerPriority" })], nodes);
    ask(run, "p", "own", 5, { priority: -1 });
    ask(run, "q", "own", 3, { priority: -1 });
    ask(run, "x", "own", 5, { priority: 1 });
    accept(run, "q");
    stepRun(run, { kind: "reserve", request: makeRequest("z", [], { needs: makeParts("a", { cpu: 1 }) }) });
    ask(run, "y", "own", 1, { priority: 1 });
    expect(show(run)).toBe("P>y Q>x x z y");
    end(run, "y");
    requeue(run, "q");
    expect(show(run)).toBe("P q X z");
  });

  it("relies on vacated machines for another request only once they are certain, so no work ends needlessly", () => {
    const queue = makeQueue("team", { [CPU]: 10 }, { withinQueue: "LowerPriority" });
    const run = worldOf([queue]);
    ask(run, "p", "team", 6);
    ask(run, "q", "team", 4);
    ask(run, "x", "team", 5, { priority: 1 });
    ask(run, "y", "team", 5, { priority: 1 });
    // Without x, the end of p alone is enough for y.
    expect(show(run)).toBe("P>x Q x y");
    accept(run, "p");
    expect(show(run)).toBe("P>x Q>y x y");
    end(run, "x");
    requeue(run, "p");
    expect(show(run)).toBe("p Q Y");
  });

  it("knows that the last pods of a victim are ending, even after its beneficiary was released", () => {
    const node = (more: Partial<NodeFacts> = {}) =>
      makeNode("n0", "a", { allocatable: toAmounts({ cpu: 10, pods: 9 }), ...more });
    const run = worldOf([makeQueue("team", { [CPU]: 20 }, { withinQueue: "LowerPriority" })], [node()]);
    ask(run, "p", "team", 6);
    ask(run, "q", "team", 4);
    ask(run, "x", "team", 3, { priority: 1 });
    accept(run, "q");
    ask(run, "y", "team", 7, { priority: 1 });
    expect(show(run)).toBe("P>y Q>x x y");
    const use = { pods: 1, requests: toAmounts({ cpu: 4 }), examples: [] };
    stepRun(run, { kind: "node", facts: node({ ownerUses: [{ owner: makeOwner("q", "job"), use }] }) });
    requeue(run, "q");
    end(run, "x");
    expect(show(run)).toBe("P>y q y");
    stepRun(run, { kind: "node", facts: node() });
    requeue(run, "p");
    expect(show(run)).toBe("p q Y");
  });

  it("requests no nodes for it", () => {
    const run = worldOf(
      [root, owner, borrower],
      [makeNode("n0", "a", { allocatable: toAmounts({ cpu: 20, pods: 9 }) })],
    );
    ask(run, "p", "borrower", 10);
    ask(run, "q", "borrower", 10);
    ask(run, "x", "owner", 10);
    expect(buildDemand(run.world, policy, run.nowMs, { pools: [], limit: 9 }).reports).toEqual([]);
  });
});

describe("preemption within a queue", () => {
  it("preempts lower priorities, and with Any newer work as well", () => {
    const lower = worldOf([makeQueue("q", { [CPU]: 10 }, { withinQueue: "LowerPriority" })]);
    ask(lower, "p", "q", 10);
    ask(lower, "x", "q", 10, { priority: 1 });
    expect(show(lower)).toBe("P>x x");
    requeue(lower, "p");
    expect(show(lower)).toBe("p X");
  });
});

describe("fair sharing", () => {
  const third = (name: string, more: Partial<Queue> = {}): Queue => makeQueue(name, {}, { parent: "root", ...more });
  it("preempts from the queue with the largest share until the shares are equal", () => {
    const run = worldOf([makeQueue("root", { [CPU]: 12 }), third("a"), third("b", { fairSharing: "Any" })]);
    for (const id of ["k", "l", "m", "n"]) ask(run, id, "a", 3);
    ask(run, "x", "b", 3);
    expect(show(run)).toBe("K L M N>x x");
    requeue(run, "n");
    ask(run, "y", "b", 3);
    expect(show(run)).toBe("K L M>y n X y");
    requeue(run, "m");
    ask(run, "z", "b", 3);
    expect(show(run)).toBe("K L m n X Y z");
  });
});

describe("work that is not preempted", () => {
  it("has run for less than the minimum", () => {
    const run = worldOf([root, owner, { ...borrower, minRunTimeMs: 1000 }]);
    ask(run, "p", "borrower", 10);
    ask(run, "q", "borrower", 10);
    ask(run, "x", "owner", 10);
    expect(show(run)).toBe("P Q x");
    stepRun(run, { kind: "wait", ms: 1000 });
    expect(show(run)).toBe("P Q>x x");
  });

  it("opts out of preemption, if its queue permits that", () => {
    const run = worldOf([root, owner, { ...borrower, permitsNonPreemptible: true }]);
    ask(run, "p", "borrower", 10);
    ask(run, "q", "borrower", 10);
    ask(run, "x", "owner", 10);
    expect(show(run)).toBe("P Q>x x");
    const spared = worldOf([root, owner, borrower]);
    ask(spared, "p", "borrower", 10);
    ask(spared, "q", "borrower", 10, { notPreemptible: true });
    ask(spared, "x", "owner", 10);
    expect(show(spared)).toBe("P Q>x x");
  });

  it("has an owner that never releases, and therefore borrows nothing that another queue may reclaim", () => {
    const run = worldOf([root, owner, borrower]);
    ask(run, "p", "borrower", 10, { owner: makeOwner("p", "session") });
    ask(run, "q", "borrower", 10, { owner: makeOwner("q", "session") });
    expect(show(run)).toBe("P q");
    expect(explainRequest(run, "q", "session")).toMatchObject({
      because: { code: "KEPT_FOR_OWNER", queue: "borrower" },
    });
    ask(run, "r", "borrower", 10);
    ask(run, "x", "owner", 10);
    expect(show(run)).toBe("P q R>x x");
    const lenders = worldOf([root, makeQueue("owner", { [CPU]: 10 }, { parent: "root" }), borrower]);
    ask(lenders, "p", "borrower", 20, { owner: makeOwner("p", "session") });
    expect(show(lenders)).toBe("P");
  });
});

it("preempts more work for contested vacated quota only after the first victims have left", () => {
  const MEMORY = "a memory";
  const run = worldOf(
    [
      makeQueue("root", { [CPU]: 4, [MEMORY]: 4 }),
      makeQueue("fair", {}, { parent: "root", fairSharing: "Any" }),
      makeQueue("light", { [CPU]: 4, [MEMORY]: 4 }, { parent: "root", weightMilli: 500 }),
      makeQueue("other", {}, { parent: "root" }),
    ],
    [makeNode("n0", "a", { allocatable: toAmounts({ cpu: 1000, memory: 1000, pods: 1000 }) })],
  );
  ask(run, "o", "other", 2, { needs: makeParts("a", { cpu: 2, memory: 8 }) });
  ask(run, "p", "light", 3);
  ask(run, "q", "light", 3);
  ask(run, "w", "light", 1, { needs: makeParts("a", { cpu: 1, memory: 4 }) });
  ask(run, "x", "fair", 3);
  expect(show(run)).toBe("O P Q>x w x");
});

it.each(["StrictFIFO", "BestEffortFIFO"] as const)(
  "keeps own quota for requests behind a beneficiary, in a %s queue",
  (strategy) => {
    const own = makeQueue("own", { [CPU]: 6 }, { parent: "root", strategy, reclaim: "LowerPriority" });
    const run = worldOf([root, own, makeQueue("other", { [CPU]: 4 }, { parent: "root" })]);
    ask(run, "p", "other", 5, { priority: -1 });
    ask(run, "q", "other", 4, { priority: -1 });
    ask(run, "a", "own", 2);
    ask(run, "b", "own", 4, { priority: -1 });
    expect(show(run)).toBe("P Q>a a b");
    ask(run, "c", "other", 1, { priority: -1 });
    expect(show(run)).toBe("P Q>a a b c");
  },
);

it("skips work in a StrictFIFO queue that never starts, because it is not preemptible and has to borrow", () => {
  const strict = makeQueue(
    "strict",
    { [CPU]: 10 },
    { parent: "root", strategy: "StrictFIFO", permitsNonPreemptible: true },
  );
  const run = worldOf([root, owner, strict]);
  ask(run, "p", "strict", 15, { notPreemptible: true });
  ask(run, "q", "strict", 1);
  expect(show(run)).toBe("p Q");
});

it("asks the work of a drained queue to end, until the queue is no longer drained", () => {
  const run = worldOf([root, borrower]);
  ask(run, "p", "borrower", 1);
  ask(run, "q", "borrower", 1);
  stepRun(run, { kind: "queue", queue: { ...borrower, stopPolicy: "HoldAndDrain" } });
  expect(show(run)).toBe("P>DRAIN Q>DRAIN");
  requeue(run, "p");
  expect(show(run)).toBe("p Q>DRAIN");
  stepRun(run, { kind: "queue", queue: borrower });
  expect(show(run)).toBe("P Q");
});

it("preempts nothing for a request that only the quota held for an older one keeps waiting", () => {
  const node = (name: string, cpu: number) => makeNode(name, "a", { allocatable: toAmounts({ cpu, pods: 100 }) });
  const small = Array.from({ length: 6 }, (_, index) => node(`n${index + 1}`, 4));
  const ours = makeQueue("ours", { [CPU]: 16 }, { parent: "root", withinQueue: "LowerPriority" });
  const run = worldOf([root, ours, makeQueue("other", { [CPU]: 4 }, { parent: "root" })], [node("n0", 8), ...small]);
  askForCpu(run, "b", 8);
  for (const id of ["p", "q", "r", "s"]) ask(run, id, "ours", 4);
  // The quota of the queue suffices, but the machine is in use.
  ask(run, "h", "ours", 8, { priority: 10 });
  stepRun(run, { kind: "wait", ms: policy.holdAfterMs + 1 });
  ask(run, "x", "ours", 4, { priority: 5 });
  stepRun(run, { kind: "wait", ms: 1 });
  expect(show(run)).toBe("B P Q R S h x");
});

it("asks the work of all queues below a drained queue to end", () => {
  const run = worldOf([root, borrower, makeQueue("other", { [CPU]: 1 })]);
  ask(run, "p", "borrower", 1);
  ask(run, "q", "other", 1);
  stepRun(run, { kind: "queue", queue: { ...root, stopPolicy: "HoldAndDrain" } });
  expect(show(run)).toBe("P>DRAIN Q");
});

it("spares the work of a drained queue that is not preemptible", () => {
  const permitting = { ...borrower, permitsNonPreemptible: true };
  const run = worldOf([root, permitting]);
  ask(run, "p", "borrower", 1, { notPreemptible: true });
  ask(run, "q", "borrower", 1, { owner: makeOwner("q", "session") });
  ask(run, "r", "borrower", 1);
  stepRun(run, { kind: "queue", queue: { ...permitting, stopPolicy: "HoldAndDrain" } });
  expect(show(run)).toBe("P Q R>DRAIN");
});

it("asks the work of a drained queue to end, even if the parent of the queue is missing", () => {
  const run = worldOf([root, borrower]);
  ask(run, "p", "borrower", 1);
  stepRun(run, { kind: "queue", queue: { ...borrower, parent: "gone" } });
  expect(show(run)).toBe("P");
  stepRun(run, { kind: "queue", queue: { ...borrower, parent: "gone", stopPolicy: "HoldAndDrain" } });
  expect(show(run)).toBe("P>DRAIN");
});

it("counts a machine that is kept for a request as part of its pool", () => {
  const small = ["n0", "n1", "n2"].map((name) => makeNode(name, "a", { allocatable: toAmounts({ cpu: 8, pods: 8 }) }));
  const run = worldOf([root, makeQueue("within", {}, { parent: "root", withinQueue: "LowerPriority" })], small);
  const whole = { needs: [{ component: "c0", pool: "a" }] };
  ask(run, "p", "within", 7, { notPreemptible: true });
  ask(run, "q", "within", 6, { notPreemptible: true });
  ask(run, "v", "within", 3);
  ask(run, "x", "within", 0, { ...whole, priority: 1 });
  expect(show(run)).toBe("P Q V>x x");
  // Of the 24 cpu, 16 are used now, and 21 after x gets the machine of v.
  ask(run, "y", "within", 2);
  expect(show(run)).toBe("P Q V>x x Y");
});

it("lets no request overtake the head of a StrictFIFO queue that needs a kept machine", () => {
  const small = ["n0", "n1", "n2"].map((name) => makeNode(name, "a", { allocatable: toAmounts({ cpu: 8, pods: 8 }) }));
  const within = makeQueue("within", {}, { parent: "root", withinQueue: "LowerPriority" });
  const strict = makeQueue("strict", {}, { parent: "root", strategy: "StrictFIFO" });
  const run = worldOf([root, within, strict], small);
  ask(run, "p", "within", 7, { notPreemptible: true });
  ask(run, "q", "within", 6, { notPreemptible: true });
  ask(run, "v", "within", 3);
  ask(run, "h", "strict", 0, { needs: ["c0", "c1", "c2"].map((component) => ({ component, pool: "a" })) });
  ask(run, "x", "within", 6, { priority: 1 });
  expect(show(run)).toBe("P Q V>x h x");
  ask(run, "t", "strict", 1);
  expect(show(run)).toBe("P Q V>x h x t");
  expect(explainRequest(run, "t").because).toMatchObject({ code: "BEHIND_STRICT_HEAD" });
});

import { until } from "@muster/testkit";
import { expect, it } from "vitest";
import { makeMemoryLog, type MemoryLog } from "../test/memory-log.ts";
import { makeNode, makeOwner, makeParts, policy, makeQueue, makeRequest } from "../test/random-world.ts";
import type { NodeFacts } from "./domain/ledger/machines.ts";
import type { ReservationPolicy } from "./domain/decisions/decide-reservation.ts";
import type { Queue } from "./domain/ledger/queue.ts";
import { LedgerKeeper } from "./ledger-keeper.ts";

function start(
  live: readonly NodeFacts[],
  log: MemoryLog = makeMemoryLog(),
  more: Partial<ReservationPolicy> = {},
  queues: readonly Queue[] = [],
) {
  const nodes = new Map(live.map((node) => [node.name, node]));
  const announced: string[] = [];
  const outcomes: string[] = [];
  const preemptions: string[] = [];
  const pauses: number[] = [];
  const keeper = new LedgerKeeper(
    {
      log,
      nodes: () => [...nodes.values()],
      scalings: () => [],
      queues: () => queues,
      allNodesKnown: () => true,
      now: () => 0,
      announce: ({ kind, reservation }) => announced.push(`${reservation.owner.id} ${kind}`),
      decided: (outcome) => outcomes.push(outcome),
      preemption: (news) => preemptions.push(news.kind),
      pause: (_signal, ms = 0) => {
        pauses.push(ms);
        return Promise.resolve();
      },
    },
    { ...policy, ...more },
  );
  return { log, nodes, announced, outcomes, preemptions, pauses, keeper };
}

/** Resolves with the answer once the log has written. */
async function written<Result>(log: MemoryLog, answer: Promise<Result>): Promise<Result> {
  log.commit();
  return answer;
}

it("answers and announces only what is on disk", async () => {
  const { log, keeper, announced } = start([makeNode("a1", "a")]);
  let answered = false;
  const answer = keeper.reserve(makeRequest("x", ["a"])).then((report) => {
    answered = true;
    return report;
  });
  await Promise.resolve();
  expect([answered, announced]).toEqual([false, []]);
  log.commit();
  expect((await answer).reservation.grant?.machines).toEqual([{ component: "c0", pool: "a", node: "a1" }]);
  expect(announced).toEqual(["ox granted"]);
});

it("decides on the pending ledger, so that two concurrent requests never get one node", async () => {
  const { log, keeper } = start([makeNode("a1", "a"), makeNode("a2", "a")]);
  const answers = [keeper.reserve(makeRequest("x", ["a"])), keeper.reserve(makeRequest("y", ["a"]))];
  log.commit();
  const reports = await Promise.all(answers);
  expect(reports.map(({ reservation }) => reservation.grant?.machines[0]?.node)).toEqual(["a1", "a2"]);
});

it("predicts the outcome of a request, and stores nothing of it", async () => {
  const { log, keeper } = start([makeNode("a1", "a"), makeNode("a2", "a")]);
  const check = (id: string, pools: readonly string[]) => written(log, keeper.check(makeRequest(id, pools)));
  expect(await check("x", ["a", "a"])).toBeUndefined();
  await written(log, keeper.reserve(makeRequest("y", ["a"])));
  expect(await check("x", ["a", "a"])).toMatchObject({ code: "POOL_AVAILABILITY", requested: 2, available: 1 });
  await expect(check("x", ["a", "a", "a"])).rejects.toMatchObject({ fault: { code: "pool_capacity", capacity: 2 } });
  await expect(check("x", ["b"])).rejects.toMatchObject({ fault: { code: "pool_unknown", pool: "b" } });
  await expect(check("y", ["b"])).rejects.toMatchObject({ fault: { code: "reservation_differs" } });
  const { reports } = await written(log, keeper.list({ kind: undefined, after: undefined, limit: 9 }));
  expect(reports.map(({ reservation }) => reservation.owner.id)).toEqual(["oy"]);
});

it("predicts the place of a request by its priority", async () => {
  const { log, keeper } = start([makeNode("a1", "a")]);
  await written(log, keeper.reserve(makeRequest("x", ["a"])));
  await written(log, keeper.reserve(makeRequest("y", ["a"])));
  const aheadOf = async (priority: number) =>
    (await written(log, keeper.check(makeRequest("z", ["a"], { priority }))))?.ahead;
  expect([await aheadOf(-1), await aheadOf(0), await aheadOf(5)]).toEqual([1, 1, 0]);
});

it("regrants nodes of decisions that never reached the disk", async () => {
  const { log, keeper } = start([makeNode("a1", "a")]);
  const lost = keeper.reserve(makeRequest("x", ["a"]));
  log.giveUp();
  await expect(lost).rejects.toThrow("log is not available");
  const report = await written(log, keeper.reserve(makeRequest("y", ["a"])));
  expect(report.reservation.grant?.machines[0]?.node).toBe("a1");
});

it("grants waiting requests that fit after a release in the same decision", async () => {
  const { log, keeper, announced, outcomes } = start([makeNode("a1", "a")]);
  await written(log, keeper.reserve(makeRequest("x", ["a"])));
  const queued = await written(log, keeper.reserve(makeRequest("y", ["a"])));
  expect(queued.because).toEqual({
    code: "POOL_AVAILABILITY",
    pool: "a",
    requested: 1,
    parts: 0,
    available: 0,
    ahead: 0,
  });
  const release = { owner: makeOwner("x"), reservationId: "r-1" };
  expect(await written(log, keeper.release(release))).toBe(true);
  expect(await written(log, keeper.release(release))).toBe(false);
  expect((await written(log, keeper.get(makeOwner("y")))).reservation.grant?.machines[0]?.node).toBe("a1");
  expect(announced).toEqual(["ox granted", "ox released", "oy granted"]);
  expect(outcomes).toEqual(["grant", "queue", "release", "nothing"]);
});

/** Returns a function that requests cpu in a queue, and answers "granted" or why the request waits. */
function reserveIn(keeper: LedgerKeeper, log: MemoryLog) {
  return async (id: string, queue: string, cpu: number, pool = "a", priority = 0): Promise<unknown> => {
    let state: unknown;
    void keeper
      .reserve(makeRequest(id, [], { needs: makeParts(pool, { cpu }), queue, priority }))
      .then(({ because }) => {
        state = because?.code ?? "granted";
      });
    await until("it is answered", () => (log.commit(), state));
    return state;
  };
}

it.each([
  ["that is now the head of a StrictFIFO queue", "StrictFIFO"],
  ["for which quota is kept instead of for another", "BestEffortFIFO"],
] as const)("grants by a request %s quota that is no longer kept from borrowers", async (_title, strategy) => {
  const quotas = { "a cpu": 4, "b cpu": 4 };
  const queues = [
    makeQueue("teams"),
    makeQueue("owner", quotas, { parent: "teams", strategy }),
    makeQueue("borrower", quotas, { parent: "teams" }),
  ];
  const { log, keeper } = start([makeNode("a1", "a"), makeNode("b1", "b")], makeMemoryLog(), {}, queues);
  const reserve = reserveIn(keeper, log);
  expect(await reserve("x", "borrower", 5)).toBe("granted");
  expect(await reserve("w", "borrower", 8, "b")).toBe("granted");
  expect(await reserve("y", "owner", 4)).toBe("WAITING_FOR_QUOTA");
  expect(await reserve("z", "borrower", 2)).toBe("KEPT_FOR_OWNER");
  // The new request also waits, and leaves the kept quota to borrowers.
  expect(await reserve("v", "owner", 4, "b", 1)).toBe("WAITING_FOR_QUOTA");
  expect((await written(log, keeper.get(makeOwner("z")))).reservation.grant?.machines[0]?.node).toBe("a1");
});

it("grants quota to borrowers in the same decision that ends the reason to keep it", async () => {
  const queues = [
    makeQueue("teams", { "a cpu": 3 }),
    makeQueue("owner", { "a cpu": 4 }, { parent: "teams" }),
    makeQueue("borrower", { "a cpu": 1 }, { parent: "teams" }),
  ];
  const { log, keeper } = start([makeNode("a1", "a")], makeMemoryLog(), {}, queues);
  const reserve = reserveIn(keeper, log);
  expect(await reserve("x", "borrower", 5)).toBe("granted");
  expect(await reserve("y", "owner", 4)).toBe("WAITING_FOR_QUOTA");
  expect(await reserve("z", "borrower", 1)).toBe("KEPT_FOR_OWNER");
  // Once this request is granted, the owner's quota no longer covers the first request, which then borrows as others do.
  expect(await reserve("v", "owner", 1)).toBe("granted");
  expect((await written(log, keeper.get(makeOwner("z")))).reservation.grant?.machines[0]?.node).toBe("a1");
});

it("does not release a newer reservation of the owner when the release of an earlier one comes late", async () => {
  const { log, keeper, outcomes } = start([makeNode("a1", "a")]);
  const owner = makeOwner("x");
  await written(log, keeper.reserve(makeRequest("x", ["a"])));
  await written(log, keeper.release({ owner, reservationId: "r-1" }));
  const newer = await written(log, keeper.reserve(makeRequest("x", ["a"])));
  expect(await written(log, keeper.release({ owner, reservationId: "r-1" }))).toBe(false);
  expect(await written(log, keeper.get(owner))).toEqual(newer);
  expect(await written(log, keeper.release({ owner, reservationId: "r-2" }))).toBe(true);
  expect(outcomes).toEqual(["grant", "release", "grant", "nothing", "release"]);
});

it("grants waiting requests when a node appears, and again after a failed write", async () => {
  const { log, keeper, nodes } = start([makeNode("a1", "a")]);
  await written(log, keeper.reserve(makeRequest("x", ["a"])));
  await written(log, keeper.reserve(makeRequest("y", ["a"])));
  const stop = new AbortController();
  const running = keeper.run(stop.signal);
  log.commit();
  await Promise.resolve();
  nodes.set("a2", makeNode("a2", "a"));
  keeper.observe("a2", makeNode("a2", "a"));
  await until("the pass has decided", () => log.waiting === 1);
  log.giveUp();
  await until("the next pass has decided", () => log.waiting === 1);
  log.commit();
  expect([...log.state.holders.keys()]).toEqual(["a1", "a2"]);
  stop.abort();
  await running;
});

it("announces every existing grant again when it starts", async () => {
  const first = start([makeNode("a1", "a")]);
  await written(first.log, first.keeper.reserve(makeRequest("x", ["a"])));
  await written(first.log, first.keeper.reserve(makeRequest("y", ["a"])));
  expect(start([], first.log).announced).toEqual(["ox granted"]);
});

it("changes nothing and counts the reason when it refuses", async () => {
  const { log, keeper, outcomes } = start([makeNode("a1", "a")]);
  await expect(keeper.reserve(makeRequest("x", ["b"]))).rejects.toMatchObject({ fault: { code: "pool_unknown" } });
  await expect(keeper.release({ owner: { kind: "", id: "" }, reservationId: "r-1" })).rejects.toMatchObject({
    fault: { code: "invalid_request", field: "owner.kind" },
  });
  await expect(keeper.release({ owner: makeOwner("x"), reservationId: "" })).rejects.toMatchObject({
    fault: { code: "invalid_request", field: "reservation_id" },
  });
  await expect(keeper.get(makeOwner("x"))).rejects.toMatchObject({ fault: { code: "not_found", id: "session/ox" } });
  expect(log.waiting).toBe(0);
  expect(outcomes).toEqual(["pool_unknown"]);
});

it("grants requests that fit after a change of the limit in the same decision, with and without a new request", async () => {
  const { log, keeper, announced, outcomes } = start(["a1", "a2", "a3"].map((name) => makeNode(name, "a")));
  const reserve = (id: string, concurrencyLimit: number) =>
    written(log, keeper.reserve(makeRequest(id, ["a"], { concurrencyLimit })));
  for (const id of ["x", "y", "z"]) await reserve(id, 1);
  expect(await written(log, keeper.limit({ ownerKind: "session", limit: 2 }))).toBe(true);
  expect(announced).toEqual(["ox granted", "oy granted"]);
  const late = await reserve("w", 3);
  expect(late.because?.code).toBe("CONCURRENCY_LIMIT");
  expect(announced).toEqual(["ox granted", "oy granted", "oz granted"]);
  expect(await written(log, keeper.limit({ ownerKind: "session", limit: 3 }))).toBe(false);
  await expect(keeper.limit({ ownerKind: "", limit: 1 })).rejects.toMatchObject({
    fault: { code: "invalid_request", field: "owner_kind" },
  });
  expect(outcomes).toEqual(["grant", "queue", "queue", "limit", "queue", "nothing"]);
});

it("decides a request whose limit lets more fit than one plan grants, after their grants", async () => {
  const nodes = Array.from({ length: 9 }, (_, index) => makeNode(`a${index}`, "a"));
  const { log, keeper } = start(nodes, makeMemoryLog(), { machinesPerPlan: 2 });
  for (const id of ["x", "y", "z", "v", "u"])
    await written(log, keeper.reserve(makeRequest(id, ["a"], { concurrencyLimit: 1 })));
  let report: unknown;
  void keeper.reserve(makeRequest("w", ["a"], { concurrencyLimit: 9 })).then(({ reservation }) => {
    report = reservation.grant?.machines[0]?.node;
  });
  await until("all are granted", () => (log.commit(), report));
  expect(report).toBe("a5");
  expect([...log.state.holders.values()]).toEqual([1, 2, 3, 4, 5, 6]);
});

it("counts granted machines that are tainted, but none that are cordoned or not ready", async () => {
  const { log, nodes, keeper } = start(["a1", "a2", "a3", "a4"].map((name) => makeNode(name, "a")));
  await written(log, keeper.reserve(makeRequest("x", ["a", "a", "a", "a"])));
  expect(keeper.count().heldByPool).toEqual(new Map([["a", 4]]));
  const taints = [{ key: "gpu", effect: "NoSchedule" }];
  const changes = {
    a1: { schedulable: false, taints },
    a2: { schedulable: false, cordoned: true, taints },
    a3: { ready: false },
  };
  for (const [name, change] of Object.entries(changes)) {
    nodes.set(name, makeNode(name, "a", change));
    keeper.observe(name, nodes.get(name));
  }
  expect(keeper.count().heldByPool).toEqual(new Map([["a", 2]]));
});

it("reports the outcome of a preemption once it is on disk", async () => {
  const quotas = { "a cpu": 1 };
  const queues = [
    makeQueue("teams"),
    makeQueue("owner", quotas, { parent: "teams", reclaim: "Any" }),
    makeQueue("borrower", quotas, { parent: "teams" }),
  ];
  const { log, keeper, preemptions } = start([makeNode("a1", "a")], makeMemoryLog(), {}, queues);
  const stop = new AbortController();
  const running = keeper.run(stop.signal);
  const ask = (id: string, queue: string) =>
    keeper.reserve(makeRequest(id, [], { owner: makeOwner(id, "job"), needs: makeParts("a", { cpu: 1 }), queue }));
  const answered = async <Result>(answer: Promise<Result>): Promise<Result> => {
    let result: Result | undefined;
    void answer.then((value) => {
      result = value;
    });
    return until("the request is answered", () => (log.commit(), result));
  };
  await until("the ledger has the queues", () => (log.commit(), log.state.queues.size === queues.length));
  for (const [id, queue] of [
    ["p", "borrower"],
    ["q", "borrower"],
    ["x", "owner"],
  ] as const)
    await answered(ask(id, queue));
  await until("the work is preempted", () => (log.commit(), preemptions.length === 1));
  await answered(keeper.requeue({ owner: makeOwner("q", "job"), reservationId: "r-2" }));
  expect(preemptions).toEqual(["planned", "requeued", "served"]);
  stop.abort();
  log.commit();
  await running;
});

it("waits in steps for a time beyond the limit of a timer, instead of planning without a pause", async () => {
  const maxTimerMs = 2 ** 31 - 1;
  const leaf = makeQueue("leaf", {}, { parent: "root" });
  const queues = [makeQueue("root", {}, { pastUseHalfLifeMs: 32 * (maxTimerMs + 1) }), leaf];
  const { log, keeper, pauses } = start([makeNode("a1", "a")], makeMemoryLog(), {}, queues);
  const stop = new AbortController();
  const running = keeper.run(stop.signal);
  await until("it has planned", () => {
    log.commit();
    return pauses.length > 0;
  });
  stop.abort();
  await running;
  expect(pauses[0]).toBeGreaterThan(0);
  expect(pauses[0]).toBeLessThanOrEqual(maxTimerMs);
});

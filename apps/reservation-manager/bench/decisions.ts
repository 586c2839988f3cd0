import { performance } from "node:perf_hooks";
import { selectSize } from "@muster/testkit";
import { readConfig } from "../src/config.ts";
import { buildDemand } from "../src/domain/decisions/build-demand.ts";
import type { ReservationRequest } from "../src/domain/decisions/check-request.ts";
import { decideReservationRelease } from "../src/domain/decisions/decide-reservation-release.ts";
import { decideReservation } from "../src/domain/decisions/decide-reservation.ts";
import { emptyLedger, restoreLedger } from "../src/domain/ledger/ledger.ts";
import { buildMachines, type NodeFacts } from "../src/domain/ledger/machines.ts";
import { buildGrantEvent, planGrants } from "../src/domain/decisions/plan-grants.ts";
import { planPreemptions } from "../src/domain/decisions/plan-preemptions.ts";
import type { Queue } from "../src/domain/ledger/queue.ts";
import { getReservationId, type Reservation } from "../src/domain/ledger/reservation.ts";
import { runToEnd } from "../src/domain/ledger/steps.ts";
import { evolveWorld, type World } from "../src/domain/ledger/world.ts";
import { buildNeeds } from "../test/managers.ts";
import { toAmounts, makeNode, makeParts, makeQueue } from "../test/random-world.ts";

const NODE_SIZE = toAmounts({ cpu: 8000, memory: 2 ** 35, pods: 110 });
const POOLS = 20;
const NODES_PER_POOL = 50;
const RACK = "rack";
/** Racks per pool, and nodes per rack. */
const RACKS = 10;
/** Number of distinct part sizes. */
const SHAPES = 10;
const SHARED_SIZES = selectSize([1000, 10_000, 100_000], [1000, 2000]);
const SIZES = selectSize([1000, 10_000, 100_000, 1_000_000], [1000, 2000]);

const policy = { ...readConfig({}).policy, queueLimit: Number.POSITIVE_INFINITY };

/** Compares the cost of a decision between many and few waiting requests. */
export function benchDecisions(): void {
  // Warm up, so that the first measurement does not include compilation.
  measureDecisions(fillWorld(1000));
  const rows = SIZES.map((waiting) => ({ waiting, ...measureDecisions(fillWorld(waiting)) }));
  const base = rows[0]?.["median µs"] ?? 1;
  console.log(
    `One request queued, one reservation released, what fits granted; ${POOLS} pools of ${NODES_PER_POOL} nodes`,
  );
  console.table(rows.map((row) => ({ ...row, "times the first": round(row["median µs"] / base) })));
  const minimal = SHARED_SIZES.map((waiting) => ({
    waiting,
    ...measureDecisions(fillWorld(waiting, withMinima), withMinima),
  }));
  console.log(`The same for whole machines that hold requests of ${SHAPES} sizes, as every machine does`);
  console.table(minimal.map((row) => ({ ...row, "times whole machines": round(row["median µs"] / base) })));
  const close = SHARED_SIZES.map((waiting) => ({ waiting, ...measureDecisions(fillRacks(waiting), inOneRack) }));
  console.log(`The same for machines of one rack each; ${RACKS} racks in each pool`);
  console.table(close.map((row) => ({ ...row, "times whole machines": round(row["median µs"] / base) })));
  const shared = SHARED_SIZES.map((waiting) => ({ waiting, ...measureDecisions(fillShared(waiting), randomParts) }));
  console.log(`The same for parts of machines of ${SHAPES} sizes, eight to a machine`);
  console.table(shared.map((row) => ({ ...row, "times whole machines": round(row["median µs"] / base) })));
  const queued = QUEUE_SIZES.map((size) => {
    const { classes: _classes, ...measured } = measureDecisions(fillQueues(size), inRandomQueue(size.queues));
    return { ...size, ...measured };
  });
  const ofFirst = queued[0]?.["median µs"] ?? 1;
  console.log("The same for parts in queues that share their quota");
  console.table(queued.map((row) => ({ ...row, "times the first": round(row["median µs"] / ofFirst) })));
  benchPreemptions();
}

const CANDIDATES = selectSize([100, 10_000], [100, 1000]);
/** Number of borrowing queues; the candidates are spread evenly over them. */
const BORROWERS = 100;

type Preempting = Pick<Queue, "reclaim" | "fairSharing" | "withinQueue" | "minRunTimeMs">;

/** The cost of the search for victims of one request, by preemption policy. */
const PREEMPTING: readonly (readonly [what: string, owner: Preempting, candidate: Preempting])[] = [
  ["reclaim", { reclaim: "Any" }, {}],
  ["fair sharing", { fairSharing: "Any" }, {}],
  ["within the queue", { withinQueue: "LowerPriority" }, {}],
  ["none, all protected", { reclaim: "Any" }, { minRunTimeMs: 3_600_000 }],
];

function benchPreemptions(): void {
  const rows = PREEMPTING.flatMap(([policy, owner, candidate]) =>
    CANDIDATES.map((candidates) => ({ policy, candidates, ...measurePreemptions(candidates, owner, candidate) })),
  );
  console.log("Planning a preemption for a request of four parts, in trees where all quota is used");
  console.table(rows);
}

function measurePreemptions(candidates: number, owner: Preempting, candidate: Preempting) {
  let world = fillBorrowed(candidates, owner, candidate);
  const times: number[] = [];
  let victims = 0;
  for (let index = 0; index < 20; index += 1) {
    // Change the history of the world, so that no cached result applies.
    world = reserve(world, { ...request(`late-${index}`, [], 1), needs: FOUR_PARTS, queue: "owner" }, index);
    const begin = performance.now();
    victims = planPreemptions(world, policy, 1000).events.length;
    times.push(performance.now() - begin);
  }
  times.sort((a, b) => a - b);
  return { victims, "median ms": round(times[times.length / 2] ?? 0) };
}

const FOUR_PARTS = makeParts("pool-0", { cpu: 1000 }, { cpu: 1000 }, { cpu: 1000 }, { cpu: 1000 });

/** One queue owns all quota. Other queues use it with parts of one core, or the queue itself does if it preempts within the queue. */
function fillBorrowed(candidates: number, owner: Preempting, candidate: Preempting): World {
  const isOwn = owner.withinQueue !== undefined;
  const nodes = Array.from({ length: candidates / 4 }, (_, index) =>
    makeNode(`node-${index}`, "pool-0", { allocatable: NODE_SIZE }),
  );
  const queues = [
    makeQueue("root"),
    makeQueue("owner", { "pool-0 cpu": 1000 * candidates }, { parent: "root", ...owner }),
    ...Array.from({ length: BORROWERS }, (_, index) =>
      makeQueue(`queue-${index}`, {}, { parent: "root", ...candidate }),
    ),
  ];
  const reservations = Array.from({ length: candidates }, (_, index): Reservation => {
    const needs = makeParts("pool-0", { cpu: 1000 });
    const queue = isOwn ? "owner" : `queue-${index % BORROWERS}`;
    const machines = needs.map((need) => ({ ...need, node: `node-${Math.floor(index / 4)}` }));
    const grant = { atMs: index, machines, use: new Map([["pool-0 cpu", 1000]]) };
    return {
      sequence: index + 1,
      owner: { kind: "job", id: `j${index}` },
      needs,
      queue,
      priority: 0,
      createdAtMs: index,
      grant,
    };
  });
  const ledger = runToEnd(restoreLedger(reservations, 1, { queues }));
  return { ledger, machines: buildMachines(nodes, ledger) };
}

/** All machines are held. The waiting requests need 1 to 5 machines of one rack and have 3 priorities. */
function fillRacks(waiting: number): World {
  const random = makeRandom(4);
  const nodes = buildNodes().map((facts, index) => {
    return { ...facts, labels: { [RACK]: `rack-${Math.floor(index / POOLS) % RACKS}` } };
  });
  let world: World = { ledger: emptyLedger, machines: buildMachines(nodes, emptyLedger) };
  for (const { name, pool = "" } of nodes) world = reserve(world, request(`holder-${name}`, [pool], 0), 0);
  for (let index = 0; index < waiting; index += 1) world = reserve(world, inOneRack(`w${index}`, random), index);
  return world;
}

function inOneRack(id: string, random: (below: number) => number): ReservationRequest {
  const pool = `pool-${random(POOLS)}`;
  const pools = Array.from({ length: random(NODES_PER_POOL / RACKS) + 1 }, () => pool);
  return { ...request(id, pools, random(3)), topology: RACK };
}

type QueueSize = {
  readonly waiting: number;
  readonly queues: number;
  readonly "to a tree": number;
  readonly nodes: number;
};

const QUEUE_SIZES: readonly QueueSize[] = selectSize(
  [
    { waiting: 1000, queues: 10, "to a tree": 10, nodes: 1000 },
    { waiting: 10_000, queues: 100, "to a tree": 10, nodes: 10_000 },
    { waiting: 100_000, queues: 1000, "to a tree": 10, nodes: 10_000 },
    { waiting: 1_000_000, queues: 1000, "to a tree": 10, nodes: 100_000 },
    { waiting: 1_000_000, queues: 1000, "to a tree": 1000, nodes: 100_000 },
  ],
  [
    { waiting: 1000, queues: 10, "to a tree": 10, nodes: 1000 },
    { waiting: 1000, queues: 100, "to a tree": 10, nodes: 1000 },
  ],
);
/** Parts of one core per queue; they use all of its quota. */
const PARTS_PER_QUEUE = 8;

/** All quota is used. The waiting requests need parts of 3 sizes, have 3 priorities and belong to queues that lend to each other. */
function fillQueues({ waiting, queues, nodes, "to a tree": perTree }: QueueSize): World {
  const random = makeRandom(5);
  const facts = Array.from({ length: nodes }, (_, index) =>
    makeNode(`node-${index}`, "pool-0", { allocatable: NODE_SIZE }),
  );
  const stated = Array.from({ length: queues }, (_, index) =>
    makeQueue(
      `queue-${index}`,
      { "pool-0 cpu": 1000 * PARTS_PER_QUEUE },
      { parent: `tree-${Math.floor(index / perTree)}` },
    ),
  );
  const roots = [...new Set(stated.map(({ parent = "" }) => parent))].map((name) => makeQueue(name));
  const wanted = inRandomQueue(queues);
  const requests = [
    ...Array.from({ length: queues * PARTS_PER_QUEUE }, (_, index) => inQueue(`holder-${index}`, index % queues, 0, 0)),
    ...Array.from({ length: waiting }, (_, index) => wanted(`w${index}`, random)),
  ];
  const reservations = requests.map(({ owner, needs: asked, queue, priority }, index): Reservation => {
    const reservation = { sequence: index + 1, owner, needs: asked, queue: queue ?? "", priority, createdAtMs: index };
    if (index >= queues * PARTS_PER_QUEUE) return reservation;
    const machines = asked.map((need) => ({ ...need, node: `node-${Math.floor(index / PARTS_PER_QUEUE)}` }));
    return { ...reservation, grant: { atMs: 0, machines, use: new Map([["pool-0 cpu", 1000]]) } };
  });
  const ledger = runToEnd(restoreLedger(reservations, 1, { queues: [...roots, ...stated] }));
  return { ledger, machines: buildMachines(facts, ledger) };
}

function inRandomQueue(queues: number) {
  return (id: string, random: (below: number) => number): ReservationRequest =>
    inQueue(id, random(queues), random(3), random(3));
}

/** Requests one part of `size + 1` cores. */
function inQueue(id: string, queue: number, size: number, priority: number): ReservationRequest {
  const needs = makeParts("pool-0", { cpu: 1000 * (size + 1) });
  return { ...request(id, [], priority), needs, queue: `queue-${queue}` };
}

/** All machines are full of parts. The waiting requests need 1 to 8 parts of one pool and have 3 priorities. */
function fillShared(waiting: number): World {
  const random = makeRandom(3);
  let world: World = { ledger: emptyLedger, machines: buildMachines(buildNodes(), emptyLedger) };
  for (let index = 0; index < POOLS * NODES_PER_POOL * 8; index += 1)
    world = reserve(world, partsRequest(`holder-${index}`, index % POOLS, [0], 0), 0);
  for (let index = 0; index < waiting; index += 1) world = reserve(world, randomParts(`w${index}`, random), index);
  return world;
}

function randomParts(id: string, random: (below: number) => number): ReservationRequest {
  const sizes = Array.from({ length: random(8) + 1 }, () => random(SHAPES));
  return partsRequest(id, random(POOLS), sizes, random(3));
}

/** Requests parts of an eighth of a machine or slightly more; a part of size 0 takes exactly an eighth. */
function partsRequest(id: string, pool: number, sizes: readonly number[], priority: number): ReservationRequest {
  const parts = sizes.map((size) => ({ cpu: 1000 + size * 100 }));
  return { ...request(id, [], priority), needs: makeParts(`pool-${pool}`, ...parts) };
}

/** Sets one of a few minimum sizes for all components. */
function withMinima(id: string, random: (below: number) => number): ReservationRequest {
  const wanted = randomRequest(id, random);
  const selection = { terms: [], tolerations: [], minimum: { cpu: 100 * (1 + random(SHAPES)) } };
  return { ...wanted, needs: wanted.needs.map((need) => ({ ...need, selection })) };
}

/** All machines are held. By default, the waiting requests need 1 to 8 machines of 1 to 3 pools and have 3 priorities. */
function fillWorld(waiting: number, next = randomRequest): World {
  const random = makeRandom(1);
  const nodes = buildNodes();
  let world: World = { ledger: emptyLedger, machines: buildMachines(nodes, emptyLedger) };
  for (const { name, pool = "" } of nodes) world = reserve(world, request(`holder-${name}`, [pool], 0), 0);
  for (let index = 0; index < waiting; index += 1) world = reserve(world, next(`w${index}`, random), index);
  return world;
}

function buildNodes(): readonly NodeFacts[] {
  return Array.from({ length: POOLS * NODES_PER_POOL }, (_, index) =>
    makeNode(`node-${index}`, `pool-${index % POOLS}`, { allocatable: NODE_SIZE }),
  );
}

function measureDecisions(start: World, next = randomRequest) {
  const random = makeRandom(2);
  const nowMs = 2_000_000;
  const times: number[] = [];
  let world = start;
  for (let index = 0; index < 2000; index += 1) {
    const holder = [...take(holdersOf(world), random(50) + 1)].at(-1) ?? 0;
    const owner = world.ledger.reservations.get(holder)?.owner ?? { kind: "", id: "" };
    const release = { owner, reservationId: getReservationId(holder) };
    const begin = performance.now();
    world = evolveWorld(world, decideReservationRelease(release, world.ledger, nowMs).events);
    world = evolveWorld(
      world,
      planGrants(world, policy, nowMs).steps.map((step) => buildGrantEvent(step, nowMs)),
    );
    world = reserve(world, next(`late-${index}`, random), nowMs);
    times.push((performance.now() - begin) * 1000);
  }
  times.sort((a, b) => a - b);
  const at = (share: number): number => round(times[Math.floor(times.length * share)] ?? 0);
  return {
    classes: start.ledger.queue.heads.size,
    "median µs": at(0.5),
    "p99 µs": at(0.99),
    "demand ms": demand(start),
  };
}

/** The cost of the answer to the node scaler's request, which arrives every few seconds. */
function demand(world: World): number {
  const times = Array.from({ length: 21 }, () => {
    const begin = performance.now();
    buildDemand(world, policy, 0, { pools: ["pool-0", "pool-7"], limit: 500 });
    return performance.now() - begin;
  });
  times.sort((a, b) => a - b);
  return round(times[10] ?? 0);
}

function reserve(world: World, wanted: ReservationRequest, nowMs: number): World {
  const verdict = decideReservation(wanted, world, policy, nowMs);
  if (verdict.kind === "refuse") throw new Error(`refused: ${verdict.fault.code}`);
  return evolveWorld(world, verdict.events);
}

function randomRequest(id: string, random: (below: number) => number): ReservationRequest {
  const pools = Array.from({ length: random(3) + 1 }, () => `pool-${random(POOLS)}`);
  const wanted = Array.from({ length: random(8) + 1 }, (_, index) => pools[index % pools.length] ?? "");
  return request(id, wanted, random(3));
}

function request(id: string, pools: readonly string[], priority: number): ReservationRequest {
  return {
    owner: { kind: "session", id },
    needs: buildNeeds(...pools),
    wait: true,
    priority,
    concurrencyLimit: 0,
  };
}

function* holdersOf({ ledger }: World): Generator<number> {
  yield* ledger.holders.values();
  for (const parts of ledger.parts.values()) for (const { sequence } of parts) yield sequence;
}

function* take<Value>(values: Iterable<Value>, count: number): Generator<Value> {
  let left = count;
  for (const value of values) {
    if (left === 0) return;
    left -= 1;
    yield value;
  }
}

/** Returns a generator of numbers below a bound; each run gets the same sequence. */
function makeRandom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

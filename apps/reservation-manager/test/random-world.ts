import fc from "fast-check";
import type { ReservationRequest } from "../src/domain/decisions/check-request.ts";
import { decideAcceptance, decideRequeue } from "../src/domain/decisions/decide-preemption.ts";
import { decideLimit } from "../src/domain/decisions/decide-limit.ts";
import { decideReservationRelease, type ReleaseRequest } from "../src/domain/decisions/decide-reservation-release.ts";
import { decideReservation, type ReservationPolicy, type Verdict } from "../src/domain/decisions/decide-reservation.ts";
import { emptyLedger, type LedgerEvent } from "../src/domain/ledger/ledger.ts";
import {
  buildMachines,
  withNode,
  withoutNode,
  withScaling,
  type NodeFacts,
  type PoolScaling,
} from "../src/domain/ledger/machines.ts";
import { settleStep as settleWorld } from "../src/domain/decisions/plan-settlement.ts";
import type { Owner } from "@muster/names";
import { countPoolOptions, MAX_POOL_OPTIONS, type Amounts, type NodeSelection } from "@muster/resources";
import { getReservationId, type Need } from "../src/domain/ledger/reservation.ts";
import type { Queue, Quota } from "../src/domain/ledger/queue.ts";
import { evolveWorld, type World } from "../src/domain/ledger/world.ts";

/** One input of a reservation manager. */
export type Operation =
  | { readonly kind: "reserve"; readonly request: ReservationRequest }
  /** The owner's last reservation, or the one before it, as a late request names it. */
  | { readonly kind: "release"; readonly owner: Owner; readonly late?: boolean }
  | { readonly kind: "limit"; readonly ownerKind: string; readonly limit: number }
  | { readonly kind: "node"; readonly facts: NodeFacts }
  | { readonly kind: "lose"; readonly node: string }
  /** Undefined: the pool is no longer scaled. */
  | { readonly kind: "scale"; readonly pool: string; readonly scaling: PoolScaling | undefined }
  | { readonly kind: "wait"; readonly ms: number };

/** A queue is put or removed, or an owner accepts or completes a preemption. */
export type QueueOperation =
  | { readonly kind: "queue"; readonly queue: Queue }
  | { readonly kind: "unqueue"; readonly name: string }
  | { readonly kind: "accept" | "requeue"; readonly owner: Owner };

/** A world that operations change, with every decision so far. */
export type LedgerRun = {
  world: World;
  nowMs: number;
  readonly nodes: Map<string, NodeFacts>;
  readonly scalings: Map<string, PoolScaling>;
  readonly events: LedgerEvent[];
  readonly verdicts: Verdict[];
};

export const policy: ReservationPolicy = {
  holdAfterMs: 1000,
  queueLimit: 1000,
  machinesPerPlan: 500,
};

export function makeOwner(id: number | string, kind = "session"): Owner {
  return { kind, id: `o${id}` };
}

/** Builds needs named c0, c1, ... in the order of the pools. */
export function makeNeeds(...pools: readonly string[]): readonly Need[] {
  return pools.map((pool, index) => ({ component: `c${index}`, pool }));
}

/** Builds needs of one pool, named c0, c1, ...: a part for each set of requests, a whole machine for undefined. */
export function makeParts(
  pool: string,
  ...requests: readonly (Readonly<Record<string, number>> | undefined)[]
): Need[] {
  return requests.map((request, index) => ({
    component: `c${index}`,
    pool,
    ...(request !== undefined && { shared: toAmounts(request) }),
  }));
}

export function makeRequest(
  id: number | string,
  pools: readonly string[],
  more: Partial<ReservationRequest> = {},
): ReservationRequest {
  return {
    owner: makeOwner(id),
    needs: makeNeeds(...pools),
    wait: true,
    priority: 0,
    concurrencyLimit: 0,
    ...more,
  };
}

export function makeNode(name: string, pool: string, more: Partial<NodeFacts> = {}): NodeFacts {
  return { name, pool, ...GOOD, allocatable: SIZE, ...more };
}

/** A queue with these quotas, by `buildPairKey`: nominal quota, borrowing limit and lending limit. */
export function makeQueue(
  name: string,
  quotas: Readonly<Record<string, number | Quota>> = {},
  more: Partial<Queue> = {},
): Queue {
  const entries = Object.entries(quotas).map(([pair, quota]): [string, Quota] => {
    return [pair, typeof quota === "number" ? { nominal: quota } : quota];
  });
  const quotaByPair = new Map(entries);
  return { name, weightMilli: 1000, quotas: quotaByPair, strategy: "BestEffortFIFO", stopPolicy: "None", ...more };
}

/** Facts of a node that can be granted as a whole. */
export const GOOD = {
  ready: true,
  schedulable: true,
  cordoned: false,
  labels: {},
  taints: [],
  occupants: [],
  allocatable: undefined,
  foreign: { pods: 0, requests: new Map<string, number>(), examples: [] },
  ownerUses: [],
} as const satisfies Partial<NodeFacts>;

/** Default allocatable amounts of a node. */
export const SIZE = toAmounts({ cpu: 8, memory: 16, pods: 5 });

export function toAmounts(record: Readonly<Record<string, number>>): Amounts {
  return new Map(Object.entries(record));
}

/** Applies a scaler's report to the pool; without a number it is no longer scaled. */
export function scaleTo(pool: string, max?: number, exhausted = false): Operation {
  return { kind: "scale", pool, scaling: max === undefined ? undefined : { pool, max, exhausted } };
}

export function startRun(nodes: readonly NodeFacts[] = []): LedgerRun {
  const world = { ledger: emptyLedger, machines: buildMachines(nodes, emptyLedger) };
  const live = new Map(nodes.map((node) => [node.name, node]));
  return { world, nowMs: 0, nodes: live, scalings: new Map(), events: [], verdicts: [] };
}

/** Applies one operation, and then grants what fits, as the service does. */
export function stepRun(
  run: LedgerRun,
  operation: Operation | QueueOperation,
  inForce: ReservationPolicy = policy,
): Verdict | undefined {
  const { machines } = run.world;
  switch (operation.kind) {
    case "node":
      run.nodes.set(operation.facts.name, operation.facts);
      run.world = { ...run.world, machines: withNode(machines, operation.facts) };
      break;
    case "lose":
      run.nodes.delete(operation.node);
      run.world = { ...run.world, machines: withoutNode(machines, operation.node) };
      break;
    case "scale":
      if (operation.scaling === undefined) run.scalings.delete(operation.pool);
      else run.scalings.set(operation.pool, operation.scaling);
      run.world = { ...run.world, machines: withScaling(machines, operation.pool, operation.scaling) };
      break;
    case "queue":
      apply(run, [{ kind: "queueChanged", queue: operation.queue, atMs: run.nowMs }]);
      break;
    case "unqueue":
      apply(run, [{ kind: "queueRemoved", name: operation.name, atMs: run.nowMs }]);
      break;
    case "wait":
      run.nowMs += operation.ms;
      break;
    case "limit":
      apply(run, decideLimit(operation, run.world.ledger, run.nowMs).events);
      break;
    case "release":
      apply(run, decideReservationRelease(releaseOf(run, operation), run.world.ledger, run.nowMs).events);
      break;
    case "accept":
      apply(run, decideAcceptance(releaseOf(run, operation), run.world.ledger, run.nowMs).events);
      break;
    case "requeue":
      apply(run, decideRequeue(releaseOf(run, operation), run.world.ledger, run.nowMs).events);
      break;
    case "reserve": {
      const verdict = decideReservation(operation.request, run.world, inForce, run.nowMs);
      run.verdicts.push(verdict);
      if (verdict.kind !== "refuse") apply(run, verdict.events);
      settle(run, inForce);
      return verdict;
    }
  }
  settle(run, inForce);
  return undefined;
}

function releaseOf(
  run: LedgerRun,
  { owner, late }: { readonly owner: Owner; readonly late?: boolean },
): ReleaseRequest {
  const reservations = run.events.flatMap((event) => {
    if (event.kind !== "requested") return [];
    const { owner: holder, sequence } = event.reservation;
    return holder.kind === owner.kind && holder.id === owner.id ? [sequence] : [];
  });
  return { owner, reservationId: getReservationId(reservations.at(late === true ? -2 : -1) ?? 0) };
}

function settle(run: LedgerRun, inForce: ReservationPolicy): void {
  let settled;
  do {
    settled = settleWorld(run.world, inForce, run.nowMs);
    apply(run, settled.events);
  } while (!settled.complete);
}

function apply(run: LedgerRun, events: readonly LedgerEvent[]): void {
  run.events.push(...events);
  run.world = evolveWorld(run.world, events);
}

const pool = fc.constantFrom("a", "b", "c", "d");
const id = fc.integer({ min: 0, max: 12 });
const kind = fc.constantFrom("session", "job");

/** Undefined: a whole machine. The last two shares fit only nodes with extended resources, or none. */
const share = fc.oneof(
  { weight: 6, arbitrary: fc.constant(undefined) },
  {
    weight: 4,
    arbitrary: fc.constantFrom(
      ...[{ cpu: 1 }, { cpu: 3, memory: 4 }, { cpu: 4, memory: 12 }, { cpu: 8 }, {}].map(toAmounts),
      ...[{ cpu: 1, "example.com/gpu": 1 }, { cpu: 9 }].map(toAmounts),
    ),
  },
);

const ssd = { key: "disk", operator: "In", values: ["ssd"] };
const toleration = { key: "gpu", operator: "Exists" };

const selection = fc.oneof(
  { weight: 5, arbitrary: fc.constant(undefined) },
  {
    weight: 2,
    arbitrary: fc.constantFrom<NodeSelection>(
      { terms: [{ matchExpressions: [ssd] }], tolerations: [] },
      { terms: [], tolerations: [toleration] },
      { terms: [{ matchExpressions: [{ key: "zone", operator: "Exists" }] }], tolerations: [{ operator: "Exists" }] },
      {
        terms: [{ matchExpressions: [ssd] }, { matchExpressions: [{ key: "zone", operator: "Gt", values: ["0"] }] }],
        tolerations: [toleration],
      },
      { terms: [], tolerations: [], minimum: { cpu: 1 } },
      { terms: [], tolerations: [], minimum: { cpu: 8, memory: 16 } },
      { terms: [], tolerations: [toleration], minimum: { cpu: 1, "example.com/gpu": 1 } },
      { terms: [{ matchExpressions: [ssd] }], tolerations: [], minimum: { cpu: 6 } },
    ),
  },
);

const others = fc.oneof(
  { weight: 4, arbitrary: fc.constant<string[]>([]) },
  { weight: 1, arbitrary: fc.shuffledSubarray(["a", "b", "c", "d"], { minLength: 1, maxLength: 3 }) },
);

const wanted = fc.array(fc.record({ pool, others, shared: share, selection }), { minLength: 1, maxLength: 4 });

/** Drops the other pools if they would exceed the maximum of choices. */
export function withFewOptions(needs: readonly Need[]): readonly Need[] {
  if (countPoolOptions(needs) <= MAX_POOL_OPTIONS) return needs;
  return needs.map(({ otherPools: _, ...need }) => need);
}

const reserve = fc
  .record({
    id,
    kind,
    needs: wanted,
    topology: fc.constantFrom(undefined, undefined, undefined, "zone", "disk"),
    wait: fc.constantFrom(true, true, true, false),
    priority: fc.integer({ min: -1, max: 1 }),
    concurrencyLimit: fc.constantFrom(0, 0, 1, 3),
  })
  .map(({ id: number, kind: ownerKind, needs, topology, ...more }): Operation => {
    const named = withFewOptions(
      needs.map(({ pool: name, others: rest, shared, selection: nodes }, index): Need => {
        const otherPools = rest.filter((other) => other !== name);
        const accepted = { pool: name, ...(otherPools.length > 0 && { otherPools }) };
        return { component: `c${index}`, ...accepted, ...(shared && { shared }), ...(nodes && { selection: nodes }) };
      }),
    );
    const gang = { needs: named, ...(topology && { topology }) };
    const request = makeRequest(number, [], { ...more, ...gang, owner: makeOwner(number, ownerKind) });
    return { kind: "reserve", request };
  });

const use = fc
  .record({ pods: fc.integer({ min: 0, max: 2 }), cpu: fc.integer({ min: 0, max: 3 }) })
  .map(({ pods, cpu }) => ({ pods, requests: toAmounts(pods === 0 ? {} : { cpu }), examples: [] }));

const allocatable = fc.constantFrom(
  SIZE,
  SIZE,
  toAmounts({ cpu: 4, memory: 16, pods: 3 }),
  toAmounts({ cpu: 8, memory: 16, pods: 5, "example.com/gpu": 2 }),
  undefined,
);

const release = fc
  .record({ id, kind, late: fc.constantFrom(false, false, false, true) })
  .map(({ id: number, kind: ownerKind, late }): Operation => {
    return { kind: "release", owner: makeOwner(number, ownerKind), late };
  });

const limit = fc
  .record({ ownerKind: kind, limit: fc.constantFrom(0, 1, 2, 5) })
  .map((named): Operation => ({ kind: "limit", ...named }));

const node = fc
  .record({
    number: fc.integer({ min: 0, max: 9 }),
    pool: fc.option(pool, { nil: undefined }),
    ready: fc.constantFrom(true, true, true, false),
    schedulable: fc.constantFrom(true, true, true, false),
    cordoned: fc.constant(false),
    labels: fc.constantFrom<NodeFacts["labels"]>({}, {}, { disk: "ssd" }, { disk: "hdd", zone: "1" }, { zone: "2" }),
    taint: fc.constantFrom<NodeFacts["taints"][number] | undefined>(
      undefined,
      undefined,
      { key: "gpu", value: "big", effect: "NoSchedule" },
      { key: "old", value: "", effect: "NoExecute" },
    ),
    occupants: fc.array(fc.record({ id, kind }), { maxLength: 1 }),
    allocatable,
    foreign: fc.oneof({ weight: 3, arbitrary: fc.constant(GOOD.foreign) }, { weight: 1, arbitrary: use }),
    ownerUses: fc.array(fc.record({ id, kind, use }), { maxLength: 1 }),
  })
  .map(({ number, occupants, ownerUses, taint, ...facts }): NodeFacts => {
    return {
      ...facts,
      schedulable: facts.schedulable && taint === undefined,
      taints: taint === undefined ? [] : [taint],
      name: `n${number}`,
      occupants: occupants.map((owner) => makeOwner(owner.id, owner.kind)),
      ownerUses: ownerUses.map((each) => ({ owner: makeOwner(each.id, each.kind), use: each.use })),
    };
  });

const scale = fc
  .record({ pool, max: fc.option(fc.integer({ min: 0, max: 6 }), { nil: undefined }), exhausted: fc.boolean() })
  .map(({ pool: name, max, exhausted }): Operation => {
    return { kind: "scale", pool: name, scaling: max === undefined ? undefined : { pool: name, max, exhausted } };
  });

const goodNode = fc
  .record({ number: fc.integer({ min: 0, max: 9 }), pool })
  .map(({ number, pool: name }) => makeNode(`n${number}`, name));

/** Reservations, releases, added, removed and changed nodes, scaled pools, and the passage of time. */
export const operations = fc.array(
  fc.oneof(
    { weight: 12, arbitrary: reserve },
    { weight: 8, arbitrary: release },
    { weight: 1, arbitrary: limit },
    { weight: 2, arbitrary: goodNode.map((facts): Operation => ({ kind: "node", facts })) },
    { weight: 2, arbitrary: node.map((facts): Operation => ({ kind: "node", facts })) },
    {
      weight: 1,
      arbitrary: fc.integer({ min: 0, max: 9 }).map((number): Operation => ({ kind: "lose", node: `n${number}` })),
    },
    { weight: 2, arbitrary: scale },
    { weight: 3, arbitrary: fc.integer({ min: 100, max: 900 }).map((ms): Operation => ({ kind: "wait", ms })) },
  ),
  { minLength: 1, maxLength: 80, size: "max" },
);

/** The nodes that a random run begins with. */
export const firstNodes = ["a", "a", "a", "b", "b", "b", "b", "c", "c"].map((name, number) =>
  makeNode(`n${number}`, name),
);

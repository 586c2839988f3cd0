import fc from "fast-check";
import type { Owner } from "@muster/names";
import { buildPairKey, type PairAmounts, type Queue, type Quota } from "../src/domain/ledger/queue.ts";
import type { Need } from "../src/domain/ledger/reservation.ts";

/** A change of queues, a change of requests, or time that passes. */
export type QueueOperation =
  | {
      readonly kind: "reserve";
      readonly owner: Owner;
      /** Undefined: no quota limits it. */
      readonly queue: string | undefined;
      /** All of them shared. */
      readonly needs: readonly Need[];
      readonly priority: number;
    }
  | { readonly kind: "release"; readonly owner: Owner }
  | { readonly kind: "put"; readonly queue: Queue }
  | { readonly kind: "remove"; readonly name: string }
  | { readonly kind: "wait"; readonly ms: number };

/** Sums the requests of shared needs, with one pod for each. */
export function askOf(needs: readonly Need[]): PairAmounts {
  const ask = new Map<string, number>();
  for (const { pool, shared } of needs) {
    for (const [resource, amount] of [...(shared ?? []), ["pods", 1] as const]) {
      const pair = buildPairKey(pool, resource);
      if (amount > 0) ask.set(pair, (ask.get(pair) ?? 0) + amount);
    }
  }
  return ask;
}

/** A name that no queue has. */
const MISSING = "missing";
const MAX_QUEUES = 7;
/** Including the root. */
const MAX_LEVELS = 3;

export const sometimes = fc.integer({ min: 0, max: 9 }).map((number) => number === 9);

/** Generates undefined in `missing` of 10 cases. */
export function makeOptional<T>(arbitrary: fc.Arbitrary<T>, missing: number): fc.Arbitrary<T | undefined> {
  return fc.oneof({ weight: 10 - missing, arbitrary }, { weight: missing, arbitrary: fc.constant(undefined) });
}

const quota = fc
  .record({
    nominal: fc.constantFrom(0, 2, 3, 4, 5, 6, 8),
    borrowingLimit: makeOptional(fc.integer({ min: 0, max: 6 }), 8),
    lendingLimit: makeOptional(fc.integer({ min: 0, max: 4 }), 8),
  })
  .map(({ nominal, borrowingLimit, lendingLimit }): Quota => ({
    nominal,
    ...(borrowingLimit !== undefined && { borrowingLimit }),
    ...(lendingLimit !== undefined && { lendingLimit }),
  }));

const namedQuotas = fc
  .tuple(
    makeOptional(quota, 1),
    makeOptional(quota, 2),
    makeOptional(quota, 3),
    makeOptional(quota, 3),
    makeOptional(quota, 9),
  )
  .map((quotas): Queue["quotas"] => {
    const pairs = ["a cpu", "a memory", "b cpu", "b memory", "a pods"];
    return new Map(
      pairs.flatMap((pair, index) => {
        const named = quotas[index];
        return named === undefined ? [] : [[pair, named] as const];
      }),
    );
  });

const quotas = fc.oneof(
  { weight: 6, arbitrary: quota.map((each): Queue["quotas"] => new Map([["a cpu", each]])) },
  { weight: 3, arbitrary: namedQuotas },
  { weight: 2, arbitrary: fc.constant<Queue["quotas"]>(new Map()) },
);

/** Short half-lives, so that past use matters within a run. */
const halfLife = fc.constantFrom(undefined, 1000, 4000);

const passing = fc.oneof(fc.integer({ min: 1, max: 900 }), fc.integer({ min: 1000, max: 4000 }));

const policies = fc
  .record({
    weightMilli: fc.constantFrom(0, 500, 1000, 1000, 2000),
    strategy: fc.constantFrom<Queue["strategy"]>("BestEffortFIFO", "BestEffortFIFO", "StrictFIFO"),
    stopPolicy: fc.oneof(
      { weight: 30, arbitrary: fc.constant("None" as const) },
      { weight: 1, arbitrary: fc.constantFrom("Hold" as const, "HoldAndDrain" as const) },
    ),
    maxPriority: fc.constantFrom(undefined, undefined, undefined, 0),
    pastUseHalfLifeMs: halfLife,
    problem: fc.oneof(
      { weight: 40, arbitrary: fc.constant(undefined) },
      { weight: 1, arbitrary: fc.constant("unreadable") },
    ),
  })
  .map(({ maxPriority, problem, pastUseHalfLifeMs, ...more }) => ({
    ...more,
    ...(pastUseHalfLifeMs !== undefined && { pastUseHalfLifeMs }),
    ...(maxPriority !== undefined && { maxPriority }),
    ...(problem !== undefined && { problem }),
  }));

type QueueParts = Omit<Queue, "name" | "parent">;

const queue: fc.Arbitrary<QueueParts> = fc
  .record({ quotas, policies })
  .map((parts) => ({ ...parts.policies, quotas: parts.quotas }));

/** Queues that compete for the same cpu, so that most waiting requests could borrow. */
const rival: fc.Arbitrary<QueueParts> = fc
  .record({
    nominal: fc.integer({ min: 3, max: 6 }),
    weightMilli: fc.constantFrom(0, 500, 1000, 1000, 2000),
    strategy: fc.constantFrom<Queue["strategy"]>("BestEffortFIFO", "BestEffortFIFO", "StrictFIFO"),
    pastUseHalfLifeMs: halfLife,
  })
  .map(({ nominal, pastUseHalfLifeMs, ...more }) => ({
    ...more,
    ...(pastUseHalfLifeMs !== undefined && { pastUseHalfLifeMs }),
    stopPolicy: "None",
    quotas: new Map([["a cpu", { nominal }]]),
  }));

/** Queues that compete for the cpu of both pools. */
const poolRival: fc.Arbitrary<QueueParts> = fc
  .record({ parts: rival, quotas: fc.tuple(quota, quota), namesOne: sometimes })
  .map(({ parts, quotas: [ofA, ofB], namesOne }) => ({
    ...parts,
    quotas: new Map([["a cpu", ofA], ...(namesOne ? [] : [["b cpu", ofB] as const])]),
  }));

/** Queues that compete for the cpu of pool a: at least three, below one or two parents. */
export const rivals = fc.oneof(forestsOf(rival, 3, 1), forestsOf(rival, 3, 2));

/** Queues of one or two trees of at most three levels, parents first: q0, q1, ... */
export const soundForests = fc.oneof(forestsOf(queue, 1, MAX_QUEUES), rivals);

/** Builds forests in which only the first `maxParents` queues have children. */
function forestsOf(
  parts: fc.Arbitrary<QueueParts>,
  minLength: number,
  maxParents: number,
): fc.Arbitrary<readonly Queue[]> {
  const drafts = fc.array(fc.record({ parts, parent: fc.nat() }), { minLength, maxLength: MAX_QUEUES, size: "max" });
  return fc.tuple(drafts, fc.boolean()).map(([all, hasTwoRoots]) => {
    const placed: { readonly queue: Queue; readonly level: number }[] = [];
    for (const [index, draft] of all.entries()) {
      const parents = placed.filter(({ level }) => level < MAX_LEVELS).slice(0, maxParents);
      const isRoot = index === 0 || (hasTwoRoots && index === 1);
      const parent = isRoot ? undefined : parents[draft.parent % parents.length];
      placed.push({ queue: named(index, draft.parts, parent?.queue.name), level: (parent?.level ?? 0) + 1 });
    }
    return placed.map((each) => each.queue);
  });
}

/** As `soundForests`; in some, one queue has a missing parent, itself or another queue of the forest as its parent. */
export const forests = fc
  .tuple(
    soundForests,
    fc.oneof(
      { weight: 9, arbitrary: fc.constant(undefined) },
      { weight: 1, arbitrary: fc.record({ moved: fc.nat(), parent: fc.nat(), isMissing: fc.boolean() }) },
    ),
  )
  .map(([queues, change]) => {
    if (change === undefined) return queues;
    const moved = change.moved % queues.length;
    const parent = change.isMissing ? MISSING : `q${change.parent % queues.length}`;
    return queues.map((each, index) => (index === moved ? { ...each, parent } : each));
  });

const amount = fc.integer({ min: 0, max: 3 });

const cpuOfA = fc.constantFrom(1, 1, 1, 1, 2, 4, 5).map((cpu) => ({ pool: "a", cpu, memory: 0 }));

/** Cpu of either pool, mostly of pool a. */
const cpuOfBoth = fc
  .record({ cpu: fc.constantFrom(1, 1, 2, 4), pools: fc.constantFrom("a b", "a b", "b a") })
  .map(({ cpu, pools }) => ({ pool: pools.slice(0, 1), otherPools: [pools.slice(2)], cpu, memory: 0 }));

const anyNeed = fc.record({ pool: fc.constantFrom("a", "a", "b"), cpu: amount, memory: amount });

/** Mostly cpu of pool a, so that requests compete. */
export const sharedNeeds = fc
  .oneof(
    { weight: 9, arbitrary: cpuOfA.map((need) => [need]) },
    { weight: 1, arbitrary: fc.array(cpuOfA, { minLength: 2, maxLength: 2 }) },
    { weight: 1, arbitrary: fc.array(anyNeed, { minLength: 1, maxLength: 3 }) },
  )
  .map(toNeeds);

/** As `sharedNeeds`, but half of them accept either pool. */
const poolNeeds = fc.oneof(sharedNeeds, fc.array(cpuOfBoth, { minLength: 1, maxLength: 2 }).map(toNeeds));

type Part = Pick<Need, "pool" | "otherPools"> & { readonly cpu: number; readonly memory: number };

function toNeeds(parts: readonly Part[]): readonly Need[] {
  return parts.map(({ pool, otherPools, ...requests }, index): Need => {
    const shared = new Map(Object.entries(requests).filter(([, requested]) => requested > 0));
    return { component: `c${index}`, pool, ...(otherPools && { otherPools }), shared };
  });
}

export const asks = sharedNeeds.map(askOf);

/** Drafts name owners by numbers that `withOwners` replaces. */
type Draft =
  | (Omit<Extract<QueueOperation, { kind: "reserve" }>, "owner"> & { readonly repeats: number | undefined })
  | { readonly kind: "release"; readonly of: number; readonly isRepeated: boolean }
  | Extract<QueueOperation, { kind: "put" | "remove" | "wait" }>;

/** Puts the queues of a forest; then requests, releases, and changes, moves, removals and returns of queues follow. */
export const queueOperations = forests.chain((queues) => operationsOn(queues, draftOn(queues)));

/** As `queueOperations` without changes of queues, so no queue ever exceeds its limits. */
export const queueOperationsWithoutChanges = forests.chain((queues) => operationsOn(queues, workOn(queues)));

/** Work of queues that compete for the same cpu, without any change of the queues: the order and kept quota decide mostly. */
export const rivalOperations = rivals.chain((queues) => operationsOn(queues, workOn(queues)));

/** Work that accepts both pools, in changing queues that own parts of both. */
export const poolOperations = fc
  .oneof(forestsOf(poolRival, 3, 1), forestsOf(poolRival, 3, 2))
  .chain((queues) => operationsOn(queues, draftOn(queues, poolNeeds)));

function operationsOn(queues: readonly Queue[], draft: fc.Arbitrary<Draft>): fc.Arbitrary<readonly QueueOperation[]> {
  const puts = queues.map((each): QueueOperation => ({ kind: "put", queue: each }));
  return fc
    .array(draft, { minLength: 1, maxLength: 80, size: "max" })
    .map((drafts) => [...puts, ...withOwners(drafts)]);
}

/** Each request gets a new owner unless it repeats one. A release names an owner that is not released yet, and rarely any owner. */
function withOwners(drafts: readonly Draft[]): readonly QueueOperation[] {
  let owners = 0;
  let unreleased: number[] = [];
  const ownerOf = (id: number): Owner => ({ kind: "job", id: `o${id}` });
  return drafts.map((draft): QueueOperation => {
    if (draft.kind === "release") {
      const released = (draft.isRepeated ? undefined : unreleased[draft.of % unreleased.length]) ?? draft.of;
      unreleased = unreleased.filter((id) => id !== released);
      return { kind: "release", owner: ownerOf(released) };
    }
    if (draft.kind !== "reserve") return draft;
    const { repeats, ...request } = draft;
    if (repeats !== undefined) return { ...request, owner: ownerOf(Math.max(0, owners - 1 - repeats)) };
    unreleased.push(owners);
    return { ...request, owner: ownerOf(owners++) };
  });
}

function draftOn(queues: readonly Queue[], needs = sharedNeeds): fc.Arbitrary<Draft> {
  return fc.oneof(
    { weight: 60, arbitrary: workOn(queues, needs) },
    { weight: 5, arbitrary: putOf(queues) },
    {
      weight: 1,
      arbitrary: fc.constantFrom(...queues).map(({ name }): Draft => ({ kind: "remove", name })),
    },
  );
}

function workOn(queues: readonly Queue[], needs = sharedNeeds): fc.Arbitrary<Draft> {
  const leaves = queues.filter(({ name }) => queues.every(({ parent }) => parent !== name));
  const names = queues.map(({ name }) => name);
  const anyQueue = fc.constantFrom(undefined, MISSING, ...names);
  const anyLeaf = leaves.length === 0 ? anyQueue : fc.constantFrom(...leaves.map(({ name }) => name));
  // The first leaf requests more than its quota, so it borrows what others miss later.
  const queueName = fc.oneof(
    { weight: 10, arbitrary: anyLeaf },
    { weight: 10, arbitrary: fc.constant(leaves[0]?.name) },
    { weight: 1, arbitrary: anyQueue },
  );
  const reserve = fc
    .record({
      queue: queueName,
      needs,
      priority: fc.constantFrom(-1, 0, 0, 0, 1, 2),
      repeats: makeOptional(fc.integer({ min: 0, max: 5 }), 9),
    })
    .map((request): Draft => ({ kind: "reserve", ...request }));
  const release = fc
    .record({ of: fc.integer({ min: 0, max: 12 }), isRepeated: sometimes })
    .map((chosen): Draft => ({ kind: "release", ...chosen }));
  return fc.oneof(
    { weight: 9, arbitrary: reserve },
    { weight: 4, arbitrary: release },
    { weight: 2, arbitrary: passing.map((ms): Draft => ({ kind: "wait", ms })) },
  );
}

/** Puts a queue of the forest with other quotas, other policies, or another parent. */
function putOf(queues: readonly Queue[]): fc.Arbitrary<Draft> {
  const known = fc.constantFrom(...queues);
  const changed = fc.oneof(
    { weight: 6, arbitrary: known },
    { weight: 3, arbitrary: fc.tuple(known, quotas).map(([each, other]) => ({ ...each, quotas: other })) },
    {
      weight: 2,
      arbitrary: fc.tuple(known, policies).map(([{ name, parent, quotas: kept }, other]) => ({
        ...other,
        name,
        quotas: kept,
        ...(parent !== undefined && { parent }),
      })),
    },
    {
      weight: 1,
      arbitrary: fc
        .tuple(known, fc.constantFrom(undefined, MISSING, ...queues.map(({ name }) => name)))
        .map(([{ parent: _, ...each }, parent]) => ({ ...each, ...(parent !== undefined && { parent }) })),
    },
  );
  return changed.map((each): Draft => ({ kind: "put", queue: each }));
}

function named(index: number, parts: QueueParts, parent: string | undefined): Queue {
  return { ...parts, name: `q${index}`, ...(parent !== undefined && { parent }) };
}

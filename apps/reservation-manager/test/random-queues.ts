import fc from "fast-check";
import type { Owner } from "@muster/names";
import { pairKey, type PairAmounts, type Queue, type Quota } from "../src/domain/queues/queue.ts";
import type { Need } from "../src/domain/ledger/reservation.ts";

/** A change of queues, a change of what is asked for, or time that passes. */
export type QueueOperation =
  | {
      readonly kind: "reserve";
      readonly owner: Owner;
      /** Undefined: no quota concerns it. */
      readonly queue: string | undefined;
      /** All of them shared. */
      readonly needs: readonly Need[];
      readonly priority: number;
    }
  | { readonly kind: "release"; readonly owner: Owner }
  | { readonly kind: "put"; readonly queue: Queue }
  | { readonly kind: "remove"; readonly name: string }
  | { readonly kind: "wait"; readonly ms: number };

/** The sum of what shared needs request, with a pod for each. */
export function askOf(needs: readonly Need[]): PairAmounts {
  const ask = new Map<string, number>();
  for (const { pool, shared } of needs) {
    for (const [resource, amount] of [...(shared ?? []), ["pods", 1] as const]) {
      const pair = pairKey(pool, resource);
      if (amount > 0) ask.set(pair, (ask.get(pair) ?? 0) + amount);
    }
  }
  return ask;
}

/** No queue has this name. */
const MISSING = "missing";
const MAX_QUEUES = 7;
/** With the root. */
const MAX_LEVELS = 3;

const optionalLimit = fc.option(fc.integer({ min: 0, max: 4 }), { nil: undefined, freq: 1 });

const quota = fc
  .record({ nominal: fc.integer({ min: 0, max: 6 }), borrowingLimit: optionalLimit, lendingLimit: optionalLimit })
  .map(({ nominal, borrowingLimit, lendingLimit }): Quota => ({
    nominal,
    ...(borrowingLimit !== undefined && { borrowingLimit }),
    ...(lendingLimit !== undefined && { lendingLimit }),
  }));

/** Undefined in one case of `freq` + 1. */
function sometimesMissing<T>(arbitrary: fc.Arbitrary<T>, freq: number): fc.Arbitrary<T | undefined> {
  return fc.option(arbitrary, { nil: undefined, freq });
}

const namedQuotas = fc
  .tuple(
    sometimesMissing(quota, 6),
    sometimesMissing(quota, 2),
    sometimesMissing(quota, 1),
    sometimesMissing(quota, 1),
    fc.oneof({ weight: 5, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: quota }),
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
  { weight: 3, arbitrary: namedQuotas },
  { weight: 2, arbitrary: fc.constant<Queue["quotas"]>(new Map()) },
);

const policies = fc
  .record({
    weightMilli: fc.constantFrom(0, 500, 1000, 1000, 2000),
    strategy: fc.constantFrom<Queue["strategy"]>("BestEffortFIFO", "BestEffortFIFO", "StrictFIFO"),
    stopPolicy: fc.oneof(
      { weight: 12, arbitrary: fc.constant("None" as const) },
      { weight: 1, arbitrary: fc.constantFrom("Hold" as const, "HoldAndDrain" as const) },
    ),
    maxPriority: fc.constantFrom(undefined, undefined, undefined, 0),
    problem: fc.oneof(
      { weight: 20, arbitrary: fc.constant(undefined) },
      { weight: 1, arbitrary: fc.constant("unreadable") },
    ),
  })
  .map(({ maxPriority, problem, ...more }) => ({
    ...more,
    ...(maxPriority !== undefined && { maxPriority }),
    ...(problem !== undefined && { problem }),
  }));

const queue = fc.record({ quotas, policies }).map((parts) => ({ ...parts.policies, quotas: parts.quotas }));

/** Queues of one or two trees of at most three levels, parents first: q0, q1, ... */
export const soundForests = fc
  .tuple(fc.array(fc.record({ queue, parent: fc.nat() }), { minLength: 1, maxLength: MAX_QUEUES }), fc.boolean())
  .map(([drafts, hasTwoRoots]) => {
    const placed: { readonly queue: Queue; readonly level: number }[] = [];
    for (const [index, draft] of drafts.entries()) {
      const parents = placed.filter(({ level }) => level < MAX_LEVELS);
      const isRoot = index === 0 || (hasTwoRoots && index === 1);
      const parent = isRoot ? undefined : parents[draft.parent % parents.length];
      placed.push({ queue: named(index, draft.queue, parent?.queue.name), level: (parent?.level ?? 0) + 1 });
    }
    return placed.map((each) => each.queue);
  });

/** The same; in some, one queue has another parent: a missing one, itself, or another queue of the forest. */
export const forests = fc
  .tuple(
    soundForests,
    fc.oneof(
      { weight: 5, arbitrary: fc.constant(undefined) },
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

const cpuOfA = fc.integer({ min: 1, max: 4 }).map((cpu) => ({ pool: "a", cpu, memory: 0 }));

const anyNeed = fc.record({ pool: fc.constantFrom("a", "a", "b"), cpu: amount, memory: amount });

/** Mostly cpu of pool a, so that they meet. */
export const sharedNeeds = fc
  .oneof(
    { weight: 5, arbitrary: fc.array(cpuOfA, { minLength: 1, maxLength: 2 }) },
    { weight: 2, arbitrary: fc.array(anyNeed, { minLength: 1, maxLength: 3 }) },
  )
  .map((parts) =>
    parts.map(({ pool, ...requests }, index): Need => {
      const shared = new Map(Object.entries(requests).filter(([, requested]) => requested > 0));
      return { component: `c${index}`, pool, shared };
    }),
  );

export const asks = sharedNeeds.map(askOf);

const owner = fc.integer({ min: 0, max: 14 }).map((id): Owner => ({ kind: "job", id: `o${id}` }));

/** The queues of a forest are put; then work comes and goes, and queues are changed, moved, removed and put again. */
export const queueOperations = forests.chain((queues) =>
  fc
    .array(operationOn(queues), { minLength: 1, maxLength: 40, size: "max" })
    .map((operations) => [...queues.map((each): QueueOperation => ({ kind: "put", queue: each })), ...operations]),
);

/** The same without any change of the queues, so that no queue uses more than it may. */
export const queueOperationsWithoutChanges = forests.chain((queues) =>
  fc
    .array(workOn(queues), { minLength: 1, maxLength: 40, size: "max" })
    .map((operations) => [...queues.map((each): QueueOperation => ({ kind: "put", queue: each })), ...operations]),
);

function operationOn(queues: readonly Queue[]): fc.Arbitrary<QueueOperation> {
  return fc.oneof(
    { weight: 14, arbitrary: workOn(queues) },
    { weight: 2, arbitrary: putOf(queues) },
    {
      weight: 1,
      arbitrary: fc.constantFrom(...queues).map(({ name }): QueueOperation => ({ kind: "remove", name })),
    },
  );
}

function workOn(queues: readonly Queue[]): fc.Arbitrary<QueueOperation> {
  const leaves = queues.filter(({ name }) => queues.every(({ parent }) => parent !== name));
  const names = queues.map(({ name }) => name);
  const anyQueue = fc.constantFrom(undefined, MISSING, ...names);
  const queueName = fc.oneof(
    { weight: 8, arbitrary: leaves.length === 0 ? anyQueue : fc.constantFrom(...leaves.map(({ name }) => name)) },
    { weight: 1, arbitrary: anyQueue },
  );
  const reserve = fc
    .record({ owner, queue: queueName, needs: sharedNeeds, priority: fc.constantFrom(-1, 0, 0, 0, 1, 2) })
    .map((request): QueueOperation => ({ kind: "reserve", ...request }));
  return fc.oneof(
    { weight: 8, arbitrary: reserve },
    { weight: 4, arbitrary: owner.map((holder): QueueOperation => ({ kind: "release", owner: holder })) },
    { weight: 1, arbitrary: fc.integer({ min: 1, max: 900 }).map((ms): QueueOperation => ({ kind: "wait", ms })) },
  );
}

/** A queue of the forest as it was, with other quotas, with other policies, or below another parent. */
function putOf(queues: readonly Queue[]): fc.Arbitrary<QueueOperation> {
  const known = fc.constantFrom(...queues);
  const changed = fc.oneof(
    { weight: 2, arbitrary: known },
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
      weight: 2,
      arbitrary: fc
        .tuple(known, fc.constantFrom(undefined, MISSING, ...queues.map(({ name }) => name)))
        .map(([{ parent: _, ...each }, parent]) => ({ ...each, ...(parent !== undefined && { parent }) })),
    },
  );
  return changed.map((each): QueueOperation => ({ kind: "put", queue: each }));
}

function named(index: number, parts: Omit<Queue, "name" | "parent">, parent: string | undefined): Queue {
  return { ...parts, name: `q${index}`, ...(parent !== undefined && { parent }) };
}

import fc from "fast-check";
import type { Owner } from "@muster/names";
import type { NodeFacts } from "../src/domain/ledger/machines.ts";
import type { Queue } from "../src/domain/ledger/queue.ts";
import type { Need } from "../src/domain/ledger/reservation.ts";
import type { PreemptionOperation, WorkRequest } from "./naive-preempting-ledger.ts";
import { waitingIn, type PreemptionPolicy, type PreemptionWorld } from "./naive-world.ts";
import { rivals, sharedNeeds, sometimes, makeOptional, soundForests } from "./random-queues.ts";
import { toAmounts, makeNode, makeOwner } from "./random-world.ts";

/** The next operation. It names work by an index among the possible ones, because only the run knows which work leaves; `operationOf` resolves it. */
export type PreemptionDraft =
  | ({ readonly kind: "reserve"; readonly ownerKind: string } & Omit<WorkRequest, "owner">)
  /** Releases any work. */
  | { readonly kind: "release"; readonly of: number }
  /** Cancels a beneficiary. */
  | { readonly kind: "cancel"; readonly of: number }
  /** Chooses work that is preempted; rarely, any work. */
  | { readonly kind: "accept" | "requeue"; readonly of: number; readonly isAny: boolean }
  | Extract<PreemptionOperation, { kind: "put" | "wait" | "node" | "lose" }>;

/** Undefined: the draft matches no work. `count`: number of earlier operations in the run. */
export function buildOperation(
  draft: PreemptionDraft,
  world: PreemptionWorld,
  count: number,
): PreemptionOperation | undefined {
  const of = (owners: readonly Owner[], index: number): Owner | undefined => owners[index % owners.length];
  const all = world.work.map(({ owner }) => owner);
  switch (draft.kind) {
    case "reserve": {
      const { ownerKind, ...request } = draft;
      return { ...request, owner: makeOwner(count, ownerKind) };
    }
    case "release": {
      const owner = of(all, draft.of);
      return owner && { kind: "release", owner };
    }
    case "cancel": {
      const beneficiaries = waitingIn(world).filter(({ promise }) => promise !== undefined);
      const owner = of(
        beneficiaries.map((work) => work.owner),
        draft.of,
      );
      return owner && { kind: "release", owner };
    }
    case "accept":
    case "requeue": {
      const leaving = world.work.filter(({ grant }) => grant?.leaving !== undefined);
      const owner = of(draft.isAny ? all : leaving.map((work) => work.owner), draft.of);
      return owner && { kind: draft.kind, owner };
    }
    case "put":
    case "wait":
    case "node":
    case "lose":
      return draft;
  }
}

/** The initial nodes and queues of a run, and its operations. */
export type PreemptionRun = {
  readonly nodes: readonly NodeFacts[];
  readonly queues: readonly Queue[];
  readonly drafts: readonly PreemptionDraft[];
};

const reclaims = fc.constantFrom<PreemptionPolicy>(
  ...[{}, { reclaim: "LowerPriority" } as const, { reclaim: "Any" } as const, { reclaim: "Any" } as const],
);

const sharesFairly = fc.constantFrom<PreemptionPolicy>(
  ...[{}, { fairSharing: "LowerPriority" } as const, { fairSharing: "Any" } as const, { fairSharing: "Any" } as const],
);

const prefers = fc.constantFrom<PreemptionPolicy>(
  ...[{}, { withinQueue: "LowerPriority" } as const, { withinQueue: "Any" } as const, { withinQueue: "Any" } as const],
);

const borrows = fc.constantFrom<PreemptionPolicy>(
  ...[{}, {}, {}, { whileBorrowing: Number.POSITIVE_INFINITY }, { whileBorrowing: -1 }, { whileBorrowing: 0 }],
);

const policy = fc
  .tuple(reclaims, sharesFairly, prefers, borrows)
  .map((policies) => policies.reduce((all, each) => ({ ...all, ...each }), {}));

type Preempting = PreemptionPolicy & Pick<Queue, "minRunTimeMs" | "permitsNonPreemptible">;

const preempting = fc
  .record({
    policies: makeOptional(policy, 1),
    minRunTimeMs: fc.constantFrom(0, 0, 0, 500, 2000),
    permitsNonPreemptible: fc.boolean(),
  })
  .map(({ policies, ...more }): Preempting => ({ ...more, ...policies }));

/** Without past use, which the reference of preemption does not count. */
function preemptingOf(queues: fc.Arbitrary<readonly Queue[]>): fc.Arbitrary<readonly Queue[]> {
  return queues.chain((all) =>
    fc
      .array(preempting, { minLength: all.length, maxLength: all.length })
      .map((policies) =>
        all.map(({ pastUseHalfLifeMs: _, ...queue }, index): Queue => ({ ...queue, ...policies[index] })),
      ),
  );
}

const index = fc.nat({ max: 12 });

const leaves = fc
  .record({
    kind: fc.constantFrom("accept" as const, "requeue" as const, "requeue" as const),
    of: index,
    isAny: sometimes,
  })
  .map((draft): PreemptionDraft => draft);

const ends = fc.oneof(
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("release" as const), of: index }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("cancel" as const), of: index }) },
);

const wait = fc.integer({ min: 1, max: 900 }).map((ms): PreemptionDraft => ({ kind: "wait", ms }));

/** Sessions and replica sets do not end their work when it is preempted. */
const ownerKind = fc.oneof(
  { weight: 6, arbitrary: fc.constant("job") },
  { weight: 3, arbitrary: fc.constantFrom("batch-job", "job-set", "queued-pod") },
  { weight: 1, arbitrary: fc.constantFrom("session", "replica-set") },
);

type Reserve = Extract<PreemptionDraft, { kind: "reserve" }>;

function reserveIn(queues: readonly Queue[], needs: fc.Arbitrary<readonly Need[]>): fc.Arbitrary<Reserve> {
  const [first = "", ...others] = queues
    .map(({ name }) => name)
    .filter((name) => queues.every(({ parent }) => parent !== name));
  return fc
    .record({
      // The first leaf requests more than its quota, so it borrows what others miss later.
      queue: fc.oneof(
        { weight: 10, arbitrary: fc.constant(first) },
        { weight: 12, arbitrary: fc.constantFrom(first, ...others) },
        { weight: 1, arbitrary: fc.constant(undefined) },
      ),
      ownerKind,
      needs,
      priority: fc.constantFrom(-1, 0, 0, 0, 1, 2),
      notPreemptible: sometimes,
      beyondMinimum: sometimes,
      graceMs: fc.constantFrom(undefined, 100),
    })
    .map(({ graceMs, ...request }): Reserve => ({
      kind: "reserve",
      ...request,
      ...(graceMs !== undefined && { graceMs }),
    }));
}

function withoutPolicies(queue: Queue): Queue {
  const { reclaim: _, fairSharing: _shares, withinQueue: _within, whileBorrowing: _borrows, ...kept } = queue;
  return kept;
}

/** Puts a queue with other policies of preemption, or with the quotas of another one. */
function putIn(queues: readonly Queue[]): fc.Arbitrary<PreemptionDraft> {
  const known = fc.constantFrom(...queues);
  return fc
    .oneof(
      known,
      fc.tuple(known, preempting).map(([queue, other]) => ({ ...withoutPolicies(queue), ...other })),
      fc.tuple(known, known).map(([queue, { quotas }]) => ({ ...queue, quotas })),
    )
    .map((queue): PreemptionDraft => ({ kind: "put", queue }));
}

const PLENTY = toAmounts({ cpu: 1000, memory: 1000, pods: 1000 });

/** Room for everything, so that only quotas and order decide. */
export const plentyOfNodes = ["a", "b"].map((pool) => makeNode(`n-${pool}`, pool, { allocatable: PLENTY }));

const SMALL = toAmounts({ cpu: 5, memory: 6, pods: 4 });

/** Less than most quotas together, in pieces that gangs have to combine. */
const fewNodes = ["a", "a", "a", "b"].map((pool, number) => makeNode(`n${number}`, pool, { allocatable: SMALL }));

const wholeOrParts = fc.oneof(
  { weight: 8, arbitrary: sharedNeeds },
  { weight: 1, arbitrary: fc.constant([{ component: "c0", pool: "a" }]) },
);

const nodeChange = fc.constantFrom<PreemptionDraft>(
  { kind: "lose", node: "n1" },
  ...fewNodes.map((facts) => ({ kind: "node", facts }) as const),
);

type RunParts = {
  readonly nodes: readonly NodeFacts[];
  readonly queues: readonly Queue[];
  readonly needs: fc.Arbitrary<readonly Need[]>;
  readonly changes?: fc.Arbitrary<PreemptionDraft>;
};

/** First fills the queues with work, mostly of low priority, so that later requests need to preempt. */
function runOn({ nodes, queues, needs, changes }: RunParts): fc.Arbitrary<PreemptionRun> {
  const reserve = reserveIn(queues, needs);
  const filling = reserve.map((draft): PreemptionDraft => ({ ...draft, priority: -1 }));
  const draft = fc.oneof(
    { weight: 12, arbitrary: reserve },
    { weight: 9, arbitrary: leaves },
    { weight: 2, arbitrary: ends },
    { weight: 3, arbitrary: wait },
    ...(changes === undefined ? [] : [{ weight: 1, arbitrary: changes }]),
  );
  return fc
    .tuple(
      fc.array(filling, { minLength: 5, maxLength: 12, size: "max" }),
      fc.array(draft, { minLength: 10, maxLength: 30, size: "max" }),
    )
    .map(([first, later]): PreemptionRun => ({ nodes, queues, drafts: [...first, ...later] }));
}

/** Unchanged queues with plentiful machines. */
export const quotaRuns = preemptingOf(fc.oneof(rivals, soundForests)).chain((queues) =>
  runOn({ nodes: plentyOfNodes, queues, needs: sharedNeeds }),
);

/** Changing queues with plentiful machines. */
export const changingRuns = preemptingOf(fc.oneof(rivals, soundForests)).chain((queues) =>
  runOn({ nodes: plentyOfNodes, queues, needs: sharedNeeds, changes: putIn(queues) }),
);

/** Scarce machines that are added and removed. */
export const machineRuns = preemptingOf(rivals).chain((queues) =>
  runOn({ nodes: fewNodes, queues, needs: wholeOrParts, changes: nodeChange }),
);

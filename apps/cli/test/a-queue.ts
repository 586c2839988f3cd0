import type { Queue, QueueAmount } from "../src/adapters/queue-messages.ts";

/** Builds amounts of one resource in pool h100; nothing is used unless the test states it. */
export function makeQueueAmount(resource: string, rest: Partial<QueueAmount> = {}): QueueAmount {
  return { pool: "h100", resource, stated: undefined, quota: undefined, used: 0, borrowed: 0, ...rest };
}

/** The quota and use of a resource in a leaf. */
export function makeOwnedAmount(
  resource: string,
  nominal: number,
  used = 0,
  limits: Partial<QueueAmount["stated"]> = {},
): QueueAmount {
  return makeQueueAmount(resource, {
    stated: { nominal, borrowingLimit: undefined, lendingLimit: undefined, ...limits },
    ...{ quota: nominal, used, borrowed: Math.max(0, used - nominal) },
  });
}

export function makeQueue(name: string, rest: Partial<Queue> = {}): Queue {
  const { amounts = [] } = rest;
  return {
    ...{ name, parent: undefined, problem: "", specProblem: "", strategy: "BestEffortFIFO", stopPolicy: "None" },
    ...{ weightMilli: 1000, maxPriority: undefined, namespaces: "", pending: 0, admitted: 0 },
    ...{ shareMillionths: 0, pastShareMillionths: 0, pastUseHalfLifeMs: 0 },
    ...{ preemption: undefined, minRunTimeMs: 0, readyTimeoutMs: 0, permitsNonPreemptible: false },
    ...{ hasQuotas: amounts.some(({ stated }) => stated !== undefined), amounts },
    ...rest,
  };
}

const GI = 2 ** 30;

/** Team A has eight GPUs and borrows two of the four of team B, which keeps two for itself. */
export const TWO_TEAMS: readonly Queue[] = [
  makeQueue("company", {
    problem: "NOT_A_LEAF",
    amounts: [
      makeQueueAmount("cpu", { quota: 192_000, used: 108_000 }),
      makeQueueAmount("memory", { quota: 1536 * GI, used: 704 * GI }),
      makeQueueAmount("nvidia.com/gpu", { quota: 10, used: 10 }),
    ],
  }),
  makeQueue("team-a", {
    parent: "company",
    ...{ pending: 1, admitted: 2, shareMillionths: 200_000, maxPriority: 100 },
    amounts: [
      makeOwnedAmount("cpu", 128_000, 96_000),
      makeOwnedAmount("memory", 1024 * GI, 640 * GI),
      makeOwnedAmount("nvidia.com/gpu", 8, 10),
    ],
  }),
  makeQueue("team-b", {
    parent: "company",
    ...{ admitted: 1, strategy: "StrictFIFO" },
    amounts: [
      makeOwnedAmount("cpu", 64_000, 12_000),
      makeOwnedAmount("memory", 512 * GI, 64 * GI),
      makeOwnedAmount("nvidia.com/gpu", 4, 1, { borrowingLimit: 4, lendingLimit: 2 }),
    ],
  }),
];

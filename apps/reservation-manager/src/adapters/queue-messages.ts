import { muster } from "@muster/proto";
import type { Codec } from "@muster/store";
import {
  NO_PAIRS,
  buildPairKey,
  parsePair,
  type PairAmounts,
  type Preemptible,
  type Queue,
  type Quota,
} from "../domain/ledger/queue.ts";
import type { PastShares } from "../domain/ledger/past-use.ts";
import { MAX_CHANGE_BYTES, countQueueBytes } from "../domain/decisions/plan-queue-changes.ts";
import type { QueueReport } from "../domain/decisions/list-queues.ts";

const wire = muster.reservation.v1;
type WireQueue = muster.reservation.v1.Queue;

/** A queue in its bucket. */
export const queueCodec: Codec<WireQueue> = {
  encode: (queue) => wire.Queue.encode(queue).finish(),
  decode: (bytes) => wire.Queue.decode(bytes),
};

/** A queue admits nothing if it has fields of a later version or is too large for the log. */
export function toQueue(message: WireQueue): Queue {
  const queue = readQueue(message);
  if (countQueueBytes(queue) <= MAX_CHANGE_BYTES) return queue;
  const problem = `it has ${queue.quotas.size} quotas, which are too many`;
  return { ...queue, quotas: new Map(), problem };
}

function readQueue(message: WireQueue): Queue {
  // A copied message lacks fields with default values, so read each field from the original.
  const { name, parent, weightMilli, maxPriority, problem, strategy, stopPolicy } = message;
  const unknown = findUnknown(message);
  const why = problem === "" ? unknown : problem;
  return {
    name,
    ...(parent !== "" && { parent }),
    weightMilli,
    quotas: toQuotas(message.quotas),
    strategy: strategy === "StrictFIFO" ? strategy : "BestEffortFIFO",
    stopPolicy: stopPolicy === "Hold" || stopPolicy === "HoldAndDrain" ? stopPolicy : "None",
    ...(maxPriority !== undefined && { maxPriority }),
    ...(why !== undefined && { problem: why }),
    ...toPolicies(message),
    ...(message.readyTimeoutMs > 0 && { readyTimeoutMs: message.readyTimeoutMs }),
  };
}

function toPolicies({
  preemption,
  minRunTimeMs,
  permitsNonPreemptible,
  pastUseHalfLifeMs,
}: Partial<WireQueue>): Partial<Queue> {
  const { reclaim, fairSharing, withinQueue, whileBorrowing } = preemption ?? {};
  return {
    ...toPolicy("reclaim", reclaim),
    ...toPolicy("fairSharing", fairSharing),
    ...toPolicy("withinQueue", withinQueue),
    ...(whileBorrowing && { whileBorrowing: whileBorrowing.maxPriority ?? MAX_PRIORITY }),
    ...(minRunTimeMs !== undefined && minRunTimeMs > 0 && { minRunTimeMs }),
    ...(permitsNonPreemptible === true && { permitsNonPreemptible }),
    ...(pastUseHalfLifeMs !== undefined && pastUseHalfLifeMs > 0 && { pastUseHalfLifeMs }),
  };
}

/** Maximum of a Kubernetes priority (int32). */
const MAX_PRIORITY = 2 ** 31 - 1;

function toPolicy<Field extends string>(field: Field, policy = ""): { readonly [Each in Field]?: Preemptible } {
  if (policy !== "LowerPriority" && policy !== "Any") return {};
  return { [field]: policy } as { readonly [Each in Field]: Preemptible };
}

function findUnknown({
  strategy,
  stopPolicy,
  preemption,
}: Pick<WireQueue, "strategy" | "stopPolicy" | "preemption">): string | undefined {
  if (!["", "BestEffortFIFO", "StrictFIFO"].includes(strategy)) return `the strategy ${strategy} is not known`;
  if (!["", "None", "Hold", "HoldAndDrain"].includes(stopPolicy)) return `the stop policy ${stopPolicy} is not known`;
  const { reclaim = "", fairSharing = "", withinQueue = "" } = preemption ?? {};
  const policy = [reclaim, fairSharing, withinQueue].find((each) => !POLICIES.includes(each));
  return policy && `the preemption policy ${policy} is not known`;
}

const POLICIES = ["", "Never", "LowerPriority", "Any"];

function toQuotas(quotas: WireQueue["quotas"]): ReadonlyMap<string, Quota> {
  const pairs = quotas.flatMap(({ pool, resources }) =>
    resources.map(({ resource, nominal, borrowingLimit, lendingLimit }): [string, Quota] => [
      buildPairKey(pool, resource),
      {
        nominal,
        ...(borrowingLimit !== undefined && { borrowingLimit }),
        ...(lendingLimit !== undefined && { lendingLimit }),
      },
    ]),
  );
  return new Map(pairs);
}

export function toWireQueue(queue: Queue): muster.reservation.v1.Queue.$Properties {
  const { quotas, reclaim, fairSharing, withinQueue, whileBorrowing, ...rest } = queue;
  const hasPolicy = [reclaim, fairSharing, withinQueue, whileBorrowing].some((policy) => policy !== undefined);
  const byPool = new Map<string, muster.reservation.v1.ResourceQuota.$Properties[]>();
  for (const [pair, quota] of quotas) {
    const { pool, resource } = parsePair(pair);
    byPool.set(pool, [...(byPool.get(pool) ?? []), { resource, ...quota }]);
  }
  const borrowing = whileBorrowing !== undefined && { whileBorrowing: { maxPriority: whileBorrowing } };
  return {
    ...rest,
    quotas: [...byPool].map(([pool, resources]) => ({ pool, resources })),
    ...(hasPolicy && { preemption: { reclaim, fairSharing, withinQueue, ...borrowing } }),
  };
}

/** Converts the parent of the queue, and the past borrowing of its child queues. */
export function toPastShares({
  parent,
  shareMillionths,
  atMs,
}: muster.reservation.v1.LedgerPastUse): readonly [string, PastShares] {
  return [parent, { shares: new Map(Object.entries(shareMillionths)), atMs }];
}

export function toWirePastUse(
  parent: string,
  { shares, atMs }: PastShares,
): muster.reservation.v1.LedgerPastUse.$Properties {
  return { parent, shareMillionths: Object.fromEntries(shares), atMs };
}

export function toPairAmounts(use: readonly muster.reservation.v1.PoolUse[]): PairAmounts {
  if (use.length === 0) return NO_PAIRS;
  return new Map(
    use.flatMap(({ pool, amounts }) =>
      Object.entries(amounts).map(([resource, amount]): [string, number] => [buildPairKey(pool, resource), amount]),
    ),
  );
}

export function toWireUse(amounts: PairAmounts): muster.reservation.v1.PoolUse.$Properties[] {
  const byPool = new Map<string, Record<string, number>>();
  for (const [pair, amount] of amounts) {
    const { pool, resource } = parsePair(pair);
    byPool.set(pool, { ...byPool.get(pool), [resource]: amount });
  }
  return [...byPool].map(([pool, ofPool]) => ({ pool, amounts: ofPool }));
}

export function toWireQueueState(
  report: QueueReport,
  namespaces: muster.reservation.v1.LabelSelector | undefined,
): muster.reservation.v1.QueueState.$Properties {
  const { queue, used, borrowed, quota, pending, admitted, shareMillionths, pastShareMillionths, problem } = report;
  return {
    queue: { ...toWireQueue(queue), ...(namespaces !== undefined && { namespaces }) },
    used: toWireUse(used),
    borrowed: toWireUse(borrowed),
    quota: toWireUse(quota),
    ...{ pending, admitted, shareMillionths, pastShareMillionths, problem },
  };
}

/** Writes one row for each pool and resource of the queue. */
export function toWireUsage(report: QueueReport): muster.reservation.v1.QueueUsage.$Properties {
  const { queue, used, borrowed, quota, pending, admitted, shareMillionths } = report;
  const pairs = [...new Set([...queue.quotas.keys(), ...quota.keys(), ...used.keys()])].sort();
  return {
    queue: queue.name,
    ...(queue.parent !== undefined && { parent: queue.parent }),
    resources: pairs.map((pair) => ({
      ...parsePair(pair),
      nominal: queue.quotas.get(pair)?.nominal,
      quota: quota.get(pair),
      used: used.get(pair) ?? 0,
      borrowed: borrowed.get(pair) ?? 0,
    })),
    ...{ pending, admitted, shareMillionths },
  };
}

import { getForest, isLimited, type QueueNode, type QueueProblem } from "../ledger/queue-forest.ts";
import { buildQuotaWorld } from "./queue-heads.ts";
import { computeQuotaTotal, type QuotaWorld } from "../ledger/quota.ts";
import { NO_PAIRS, type PairAmounts, type Queue } from "../ledger/queue.ts";
import { toMillionths, computeShare } from "../ledger/share.ts";
import { getPastShare } from "../ledger/past-use.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { World } from "../ledger/world.ts";

/** The quota, the use and the waiting requests of a queue. */
export type QueueReport = {
  readonly queue: Queue;
  /** The limited amounts of the queue's work and of the work in the queues below it. */
  readonly used: PairAmounts;
  readonly borrowed: PairAmounts;
  /** The quota of each pair that the queue or its work names. */
  readonly quota: PairAmounts;
  /** Requests that wait in this queue, without those of queues below it. */
  readonly pending: number;
  readonly admitted: number;
  readonly shareMillionths: number;
  /** The share of its past borrowing; 0 if past use does not count. */
  readonly pastShareMillionths: number;
  readonly problem: QueueProblem | undefined;
};

export type QueueQuery = {
  /** Only this queue; absent: all. */
  readonly name?: string | undefined;
  /** The `next` of the page before; absent: from the beginning. */
  readonly after?: string | undefined;
  readonly limit: number;
};

export type QueuePage = { readonly reports: readonly QueueReport[]; readonly next: string | undefined };

/** One page of the queues in the order of their names. */
export function buildQueuePage(world: World, { name: only, after, limit }: QueueQuery): QueuePage {
  const forest = getForest(world.ledger.queues);
  const quotas = buildQuotaWorld(world);
  const reports: QueueReport[] = [];
  for (const [name] of world.ledger.queues.entries(only ?? after)) {
    if (only !== undefined && name !== only) break;
    if (name === after) continue;
    const node = forest.get(name);
    if (node === undefined) continue;
    if (reports.length === limit) return { reports, next: reports.at(-1)?.queue.name };
    reports.push(reportOf(node, world.ledger, quotas));
  }
  return { reports, next: undefined };
}

function reportOf(node: QueueNode, ledger: Ledger, quotas: QuotaWorld): QueueReport {
  const { name } = node.queue;
  const used = quotas.use.get(name) ?? NO_PAIRS;
  const quota = new Map<string, number>();
  for (const pair of new Set([...node.total.keys(), ...used.keys()]))
    if (isLimited(node, pair)) quota.set(pair, computeQuotaTotal(node, pair, quotas.pools));
  const borrowed = [...used].flatMap(([pair, amount]): [string, number][] => {
    const beyond = amount - (quota.get(pair) ?? amount);
    return beyond > 0 ? [[pair, beyond]] : [];
  });
  return {
    queue: node.queue,
    used,
    quota,
    borrowed: new Map(borrowed),
    pending: ledger.queue.byQueue.get(name)?.places.size ?? 0,
    admitted: ledger.admitted.get(name)?.size ?? 0,
    shareMillionths: toMillionths(computeShare(node, used, quotas)),
    pastShareMillionths: getPastShare(node, ledger.pastUse),
    problem: node.problem,
  };
}

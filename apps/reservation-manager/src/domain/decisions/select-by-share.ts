import type { QueueNode } from "../ledger/queue-forest.ts";
import { NO_PAIRS, type PairAmounts } from "../ledger/queue.ts";
import { withTreeUse, type QueueUse } from "../ledger/queue-use.ts";
import type { QuotaWorld } from "../ledger/quota.ts";
import { compareShares, computeShare, type Share } from "../ledger/share.ts";
import {
  Borrower,
  compareCandidates,
  splitPaths,
  withoutUse,
  type Candidate,
  type QuotaNeed,
  type QueueWork,
} from "./list-candidates.ts";
import { buildQuotaWorld } from "./queue-heads.ts";

const RULES = ["at most after", "below before"] as const;
type Rule = (typeof RULES)[number];

/**
 * Selects at most `limit` candidates of queues with larger shares, from the largest share down. Applies the two rules of Kueue's fair sharing in turn. First
 * rule: the share of the request's queue, with the request, is at most the other queue's share without the candidate. Second rule: it is less than the other
 * queue's share with the candidate.
 */
export function selectByShare(
  need: QuotaNeed & { readonly asked: PairAmounts },
  work: readonly QueueWork[],
  limit: number,
): readonly Candidate[] {
  const shares = new Shares(buildQuotaWorld(need.world));
  const selected: Candidate[] = [];
  let { use } = buildQuotaWorld(need.world);
  let left = work;
  for (const rule of RULES) {
    const passed = new Map<QueueNode, Candidate[]>();
    const borrowers = new Map(left.map((each) => [each.node, new Borrower(each, need)]));
    while (selected.length < limit) {
      const first = firstByShare(need.node.path.at(-1) ?? need.node, borrowers, use, shares);
      if (first === undefined) break;
      borrowers.get(first.node)?.take();
      if (isShareRuleMet(need, first, rule, use, shares)) {
        selected.push(first);
        use = withoutUse(use, first);
      } else passed.set(first.node, [...(passed.get(first.node) ?? []), first]);
    }
    left = [...passed].map(([node, candidates]) => ({ node, candidates }));
  }
  return selected;
}

function isShareRuleMet(
  { node, asked }: QuotaNeed & { readonly asked: PairAmounts },
  candidate: Candidate,
  rule: Rule,
  use: QueueUse["tree"],
  shares: Shares,
): boolean {
  const { below, child } = splitPaths(node, candidate.node);
  const theirs = below.at(-1) ?? candidate.node;
  const afterwards = withTreeUse(withoutUse(use, candidate), node, asked, 1);
  const mine = shares.of(child, afterwards);
  if (rule === "at most after") return compareShares(mine, shares.of(theirs, afterwards)) <= 0;
  return compareShares(mine, shares.of(theirs, use)) < 0;
}

/** Returns the first work of the queue with the largest share, compared from the root to the leaves. Ties go to the first work in the order of preemption. */
function firstByShare(
  node: QueueNode,
  borrowers: ReadonlyMap<QueueNode, Borrower>,
  use: QueueUse["tree"],
  shares: Shares,
): Candidate | undefined {
  if (node.children.length === 0) return borrowers.get(node)?.first(use);
  let largest: { readonly first: Candidate; readonly share: Share } | undefined;
  for (const child of node.children) {
    const first = firstByShare(child, borrowers, use, shares);
    if (first === undefined) continue;
    const share = shares.of(child, use);
    const order = largest === undefined ? -1 : compareShares(largest.share, share);
    if (largest === undefined || order < 0 || (order === 0 && compareCandidates(first, largest.first) < 0))
      largest = { first, share };
  }
  return largest?.first;
}

/** Caches the share of each queue by its use. */
class Shares {
  readonly #quotas: QuotaWorld;
  readonly #known = new Map<QueueNode, { readonly used: PairAmounts; readonly share: Share }>();

  constructor(quotas: QuotaWorld) {
    this.#quotas = quotas;
  }

  of(node: QueueNode, use: QueueUse["tree"]): Share {
    const used = use.get(node.queue.name) ?? NO_PAIRS;
    const known = this.#known.get(node);
    if (known?.used === used) return known.share;
    const share = computeShare(node, used, this.#quotas);
    this.#known.set(node, { used, share });
    return share;
  }
}

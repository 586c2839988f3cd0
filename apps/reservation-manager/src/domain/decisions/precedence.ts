import { getForest, type QueueNode } from "../ledger/queue-forest.ts";
import { getPastShare } from "../ledger/past-use.ts";
import type { Reservation } from "../ledger/reservation.ts";
import { compareShares, type Share } from "../ledger/share.ts";
import { compareQueuePositions, getQueuePosition, type QueuePosition } from "../ledger/waiting-queue.ts";
import type { World } from "../ledger/world.ts";
import { chooseOption, listOptions } from "./choose-option.ts";
import { getWaitingRequest, getQueueRank, type QueuedRequestRank } from "./first-in-order.ts";

/**
 * The rule that decides which of two requests goes first; earlier rules decide before later ones. WEIGHT: one request borrows for a queue of weight 0. QUOTA: a
 * nearer quota suffices for one. SHARE: its grant gives one queue a lower share. PRIORITY, AGE: those of the requests.
 */
export type OrderRule = "WEIGHT" | "QUOTA" | "SHARE" | "PRIORITY" | "AGE";

/** The values that compare a queue with another child of the same parent. */
export type ComparedQueue = {
  readonly queue: string;
  /** Levels from the queue up to the first quota that suffices for the request; 0 is its own. */
  readonly level: number;
  /** The share after the grant of the request, with past use. */
  readonly share: Share;
  /** The part of the share that is past use. */
  readonly pastShareMillionths: number;
};

/** The order of a request relative to another request. */
export type Precedence = {
  /** True if the other request is granted first. */
  readonly isBehind: boolean;
  readonly rule: OrderRule;
  /** The queues below the nearest common parent; absent: both requests are of one queue, or no queue is above both. */
  readonly compared?: { readonly own: ComparedQueue; readonly other: ComparedQueue };
};

/** A waiting request. `asking` is undefined if no existing queue is named. */
export type RequestPrecedence = { readonly place: QueuePosition; readonly asking: QueuedRequestRank | undefined };

/** Selects the option for which the nearest quota suffices. */
export function buildRequestPrecedence(reservation: Reservation, world: World): RequestPrecedence {
  const { queue } = reservation;
  const place = getQueuePosition(reservation);
  const node = queue === undefined ? undefined : getForest(world.ledger.queues).get(queue);
  const nearest = node && chooseOption(listOptions(reservation), world, () => false);
  return { place, asking: node && nearest && getWaitingRequest(place, nearest.demand, node, world) };
}

/** Decides which of two requests `takeFirst` grants first if both fit, and by which rule. */
export function comparePrecedence(own: RequestPrecedence, other: RequestPrecedence, world: World): Precedence {
  const isEqual = own.place.priority === other.place.priority;
  const byPlace: Comparison = [isEqual ? "AGE" : "PRIORITY", compareQueuePositions(own.place, other.place)];
  const [ownNode, otherNode] = [own.asking?.node, other.asking?.node];
  if (ownNode !== undefined && ownNode === otherNode) return decideBy([byPlace]);
  const byWeight: Comparison = ["WEIGHT", Number(isLast(own)) - Number(isLast(other))];
  const siblings = ownNode && otherNode && findSiblings(ownNode, otherNode);
  if (own.asking === undefined || other.asking === undefined || siblings === undefined)
    return decideBy([byWeight, byPlace]);
  const compared = {
    own: compareAs(own.asking, siblings.own, world),
    other: compareAs(other.asking, siblings.other, world),
  };
  const byQuota: Comparison = ["QUOTA", compared.own.level - compared.other.level];
  const byShare: Comparison = ["SHARE", compareShares(compared.own.share, compared.other.share)];
  return { ...decideBy([byWeight, byQuota, byShare, byPlace]), compared };
}

/** A positive order means that the other request is granted first. */
type Comparison = readonly [rule: OrderRule, order: number];

function decideBy(comparisons: readonly Comparison[]): Precedence {
  const [rule, order] = comparisons.find(([, each]) => each !== 0) ?? ["AGE", 0];
  return { isBehind: order > 0, rule };
}

function isLast({ asking }: RequestPrecedence): boolean {
  return asking?.isLast ?? false;
}

function compareAs(asking: QueuedRequestRank, node: QueueNode, world: World): ComparedQueue {
  const { level, share } = getQueueRank(asking, node, world);
  return { queue: node.queue.name, level, share, pastShareMillionths: getPastShare(node, world.ledger.pastUse) };
}

/** The queues of both paths that have the same parent; undefined: the queues are of different trees. */
function findSiblings(
  own: QueueNode,
  other: QueueNode,
): { readonly own: QueueNode; readonly other: QueueNode } | undefined {
  const level = own.pathFromRoot.findIndex((node, index) => node !== other.pathFromRoot[index]);
  const [ofOwn, ofOther] = [own.pathFromRoot[level], other.pathFromRoot[level]];
  return level > 0 && ofOwn !== undefined && ofOther !== undefined ? { own: ofOwn, other: ofOther } : undefined;
}

import { formatElapsed } from "@muster/faults";
import { parseAmount, roundAmount } from "@muster/resources";
import type { QuotaShortage, Reservation, ReservationExplanation } from "../adapters/reservation-messages.ts";
import { buildQueueRecord, buildQuotaSection } from "./build-queue-views.ts";
import { buildSection, type Cell, type TableStyle } from "./build-table.ts";
import { describeQueueProblem } from "./describe-queue-problem.ts";
import { listSome } from "./list-some.ts";
import { orderReservations } from "./order-reservations.ts";
import { formatCount } from "./plural.ts";
import { findPairAmount, getRootQueue, type PlacedQueue } from "./queue-tree.ts";
import { suggestName } from "./suggest-name.ts";

/** Codes of waits whose cause is the queue of the reservation. */
const QUEUE_CODES: ReadonlySet<string> = new Set([
  ...["QUEUE_UNKNOWN", "QUEUE_HELD", "WAITING_FOR_QUOTA", "KEPT_FOR_OWNER", "BEHIND_STRICT_HEAD"],
  ...["BEHIND_HIGHER_PRIORITY", "BEHIND_FAIR_SHARE"],
]);
const MAX_NAMED = 5;
const MAX_TREE_ROWS = 20;

/** The queue that keeps a reservation waiting. */
export type QueueWait = {
  readonly code: string;
  readonly queue: string;
  readonly quota: QuotaShortage | undefined;
  /** Undefined if the queue does not exist. */
  readonly found: PlacedQueue | undefined;
  readonly all: readonly PlacedQueue[];
  /** Requests of the queue that go earlier, sorted by their order. */
  readonly ahead: readonly Reservation[];
};

/** Returns whether the reservation waits because of its queue. */
export function isWaitingForQueue({
  code,
  reservation,
}: Pick<ReservationExplanation, "code" | "reservation">): boolean {
  return QUEUE_CODES.has(code) && reservation.queue !== undefined;
}

/** Builds the wait of a reservation from all queues and reservations. */
export function buildQueueWait(
  { code, reservation }: Pick<ReservationExplanation, "code" | "reservation">,
  all: readonly PlacedQueue[],
  reservations: readonly Reservation[],
): QueueWait {
  const { queue = "", because } = reservation;
  const waiting = orderReservations(reservations.filter((each) => each.queue === queue && each.state === "waiting"));
  const place = waiting.findIndex(({ id }) => id === reservation.id);
  return {
    ...{ code, queue, quota: because?.quota, all },
    found: all.find(({ name }) => name === queue),
    ahead: waiting.slice(0, Math.max(0, place)),
  };
}

/** Describes for people the queue, the numbers and the requests ahead. */
export function buildQueueWaitLines(wait: QueueWait, nowMs: number, style: TableStyle): readonly string[] {
  const { code, queue, found, ahead, all } = wait;
  if (found === undefined) return ["", `queue ${queue}: does not exist; ${knownQueues(all)}`];
  const problem = describeQueueProblem(found);
  const first = code === "BEHIND_STRICT_HEAD" ? ": nothing passes the first request" : "";
  const named = ahead.map(
    (each) => `${ownerOf(each)} (priority ${each.priority}, ${formatElapsed(nowMs - each.createdAtMs)})`,
  );
  return [
    "",
    `queue ${queue}: ${found.strategy}${first}; ${found.pending} pending, ${found.admitted} admitted`,
    ...(problem === undefined ? [] : [`  ${found.problem}: ${problem.message}`]),
    ahead.length === 0
      ? "  no request of the queue is ahead"
      : `  ${formatCount(ahead.length, "request")} of the queue ahead: ${listSome(named, MAX_NAMED, ",")}`,
    ...buildNumbers(wait, found, style),
  ];
}

function buildNumbers({ quota, all }: QueueWait, found: PlacedQueue, style: TableStyle): readonly string[] {
  if (quota === undefined) return [];
  const { pool, resource, requested, available } = quota;
  const amounts = found.amounts.filter((each) => each.pool === pool && each.resource === resource);
  return [
    `  ${resource} in pool ${pool}: ${requested} needed, ${available} available`,
    ...(amounts.length === 0 ? [] : buildQuotaSection({ ...found, amounts }, style)),
    ...buildTree(quota, all, found, style),
  ];
}

/** Lists the users of the resource in the tree, and the work that waits for it. */
function buildTree(
  pair: QuotaShortage,
  all: readonly PlacedQueue[],
  found: PlacedQueue,
  style: TableStyle,
): readonly string[] {
  const tree = all.filter((queue) => getRootQueue(queue) === getRootQueue(found));
  const shown = tree.filter((queue) => found.path.some(({ name }) => name === queue.name) || isInvolved(queue, pair));
  const print = (amount: number | undefined): string =>
    amount === undefined ? "-" : roundAmount(pair.resource, amount);
  const rows = shown.slice(0, MAX_TREE_ROWS).map((queue): Cell[] => {
    const { quota, used = 0, borrowed = 0 } = findPairAmount(queue, pair) ?? {};
    const name = { text: queue.name, colour: queue === found ? ("bold" as const) : ("none" as const) };
    return [{ ...name, indent: 2 * queue.depth }, print(quota), print(used), print(borrowed), String(queue.pending)];
  });
  const more = shown.length - MAX_TREE_ROWS;
  return [
    ...buildSection(["TREE", "QUOTA", "USED", "BORROWED", "PENDING"], rows, style),
    ...(more > 0 ? [`and ${formatCount(more, "more queue")}; \`muster queues\` lists them`] : []),
  ];
}

function isInvolved(queue: PlacedQueue, pair: QuotaShortage): boolean {
  const amount = findPairAmount(queue, pair);
  return amount !== undefined && (amount.used > 0 || (amount.quota ?? 0) > 0);
}

/** Returns the command or the change that helps. */
export function adviseOnQueueWait(wait: QueueWait): string {
  const { code, queue, found, ahead, all } = wait;
  if (found === undefined) {
    const names = all.filter(({ children }) => children.length === 0).map(({ name }) => name);
    const hint = suggestName(queue, names, "`muster queues` lists them");
    return `create the queue ${queue}, or name another one in the label muster.dev/queue: ${hint}`;
  }
  const problem = describeQueueProblem(found);
  if (problem !== undefined) return problem.next;
  if (code === "BEHIND_STRICT_HEAD") {
    const [first] = ahead;
    const change = `\`kubectl patch queue ${queue} --type=merge --patch '{"spec":{"strategy":"BestEffortFIFO"}}'\``;
    return `${first === undefined ? "wait for the first one" : `wait for ${ownerOf(first)}`}, or let others pass it: ${change}`;
  }
  if (code === "BEHIND_HIGHER_PRIORITY") return "wait for the request that goes first, or raise `priority`";
  if (code === "BEHIND_FAIR_SHARE")
    return `wait for the request that goes first, or raise nominal or weight: \`kubectl edit queue ${queue}\``;
  if (code === "KEPT_FOR_OWNER") return adviseOnKept(wait, found);
  if (code === "WAITING_FOR_QUOTA") return adviseOnShortage(wait, found);
  return `\`muster get queue ${queue}\` shows its state`;
}

function adviseOnKept({ quota, all }: QueueWait, found: PlacedQueue): string {
  const owners = all.filter((queue) => {
    if (quota === undefined || queue.name === found.name || getRootQueue(queue) !== getRootQueue(found)) return false;
    const { quota: owned = 0, used = 0 } = findPairAmount(queue, quota) ?? {};
    return queue.pending > 0 && used < owned;
  });
  const names = owners.map(({ name }) => name);
  const whom = names.length === 0 ? "the owner of the quota" : listSome(names, MAX_NAMED, ",");
  return `wait for the work of ${whom}, which waits for its own quota, or raise nominal in ${found.name}`;
}

function adviseOnShortage({ quota, queue, all }: QueueWait, found: PlacedQueue): string {
  if (quota === undefined) return `wait, or raise a quota: \`muster get queue ${queue}\` shows what is used`;
  const { resource, pool } = quota;
  const { stated, quota: owned = 0, used = 0 } = findPairAmount(found, quota) ?? {};
  if (found.hasQuotas && stated === undefined)
    return `name ${resource} of pool ${pool} in spec.quotas: \`kubectl edit queue ${queue}\``;
  const limit = stated?.borrowingLimit;
  const edit = `\`kubectl edit queue ${queue}\``;
  if (typeof limit === "number" && used >= owned + limit)
    return `wait until work of ${queue} ends, or raise nominal or borrowingLimit of ${resource}: ${edit}`;
  const borrowers = all.filter(
    (each) =>
      each.name !== queue &&
      each.children.length === 0 &&
      getRootQueue(each) === getRootQueue(found) &&
      (findPairAmount(each, quota)?.borrowed ?? 0) > 0,
  );
  const names = listSome(
    borrowers.map(({ name }) => name),
    MAX_NAMED,
    ",",
  );
  const isOwned = used + (parseAmount(resource, quota.requested) ?? 0) <= owned;
  if (isOwned && names !== "")
    return `wait until work of ${names} ends, which borrows what ${queue} owns; a lower lendingLimit of ${resource} lends less: ${edit}`;
  const whose = names === "" ? "work of its tree ends" : `work of ${names} ends, which borrows`;
  return `wait until ${whose}, or raise nominal of ${resource}: ${edit}`;
}

/** Builds the wait for programs. */
export function buildQueueWaitRecord(wait: QueueWait): Record<string, unknown> {
  const { queue, found, quota, ahead } = wait;
  return {
    ...(found === undefined ? { name: queue, problem: "QUEUE_UNKNOWN" } : buildQueueRecord(found)),
    shortage: quota,
    ahead: ahead.map(ownerOf),
  };
}

function knownQueues(all: readonly PlacedQueue[]): string {
  const names = all.filter(({ children }) => children.length === 0).map(({ name }) => name);
  return names.length === 0 ? "no queue exists" : `queues that may have work: ${listSome(names, MAX_NAMED, ",")}`;
}

function ownerOf({ ownerKind, ownerId }: Reservation): string {
  return `${ownerKind}/${ownerId}`;
}

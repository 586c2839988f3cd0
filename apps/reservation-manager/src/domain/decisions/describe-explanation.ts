import { assertNever } from "@muster/faults";
import type { TruncatedList, Explanation, Holder, PoolExplanation } from "./explanation.ts";
import type { WaitReason } from "./explain-waiting.ts";
import type { DomainRoom } from "./fit.ts";
import { printAmount, roundAmount } from "@muster/resources";
import type { PartDemand, PartShortage } from "./explain-parts.ts";
import type { PoolAmounts } from "./summarise-pools.ts";
import type { UnusableNode } from "../ledger/machines.ts";
import type { Machine } from "../ledger/reservation.ts";
import type { Owner } from "@muster/names";
import type { ComparedQueue } from "./precedence.ts";
import { printShare } from "../ledger/share.ts";
import type { QueueObstacle, QuotaShortage } from "./find-queue-obstacle.ts";

/** Limit of names in one sentence; the explanation lists the rest. */
const MAX_NAMED = 3;

/** Describes the shortage, the holders, and the number of requests ahead. */
export function describeExplanation(facts: Omit<Explanation, "message">): string {
  const { reservation, because, pools, concurrency, hold } = facts;
  if (reservation.grant !== undefined) return `holds ${describeGrant(reservation.grant.machines)}`;
  if (because === undefined) return "it fits, and is granted next";
  const pool = pools.find((one) => one.pool === because.pool && one.nodes === because.nodes);
  const queue = because.ahead === 0 ? "" : `; ${countOf(because.ahead, "request")} ahead of it`;
  switch (because.code) {
    case "POOLS_NOT_KNOWN_YET":
      if (because.parts > 0) return `not all nodes are known at present; ${describePartsOf(because, pool)}${queue}`;
      return `not all nodes are known at present; ${because.available} of ${because.requested} machines of pool ${because.pool} are known to be free${queue}`;
    case "CONCURRENCY_LIMIT":
      return `${describeLimit(reservation.owner.kind, concurrency?.granted ?? 0, concurrency?.limit ?? 0)}${named(concurrency?.holders, "held by")}${queue}`;
    case "HELD_FOR_OLDER":
      if (because.topology !== undefined)
        return `${describeDomain(because, because.topology)}; the rest is kept for ${describeHold(hold)}${queue}`;
      if (because.parts > 0)
        return `${describePartsOf(because, pool)}; the rest of the room is kept for ${describeHold(hold)}${queue}`;
      return `pool ${because.pool} has ${countOf(pool?.available ?? 0, "machine")} free, ${needed(because)}, and ${pool?.kept ?? 0} ${isOrAre(pool?.kept ?? 0)} kept for ${describeHold(hold)}${queue}`;
    case "WAITING_FOR_TOPOLOGY":
      return `${because.topology === undefined ? "" : describeDomain(because, because.topology)}${named(pool?.holders, "held by")}${queue}`;
    case "POOL_TOO_SMALL":
      return `${describeTooSmall(because, pool)}${queue}`;
    case "POOL_AVAILABILITY":
      return `${describeShortage(because, pool)}${pool === undefined ? "" : describePool(pool)}${queue}`;
    case "FRAGMENTED":
      return `${describeFragments(because, pool)}${queue}`;
    case "BEHIND_HIGHER_PRIORITY":
    case "BEHIND_FAIR_SHARE":
      return `${describeBehind(facts, because)}${queue}`;
    case "WAITING_FOR_PREEMPTED":
      return `work that is preempted for it has not ended yet${named(facts.preempted, "waits for")}${queue}`;
    case "QUEUE_UNKNOWN":
    case "QUEUE_HELD":
    case "BEHIND_STRICT_HEAD":
    case "WAITING_FOR_QUOTA":
    case "KEPT_FOR_OWNER":
      return `${describeQueueWait(because.code, because)}${queue}`;
    default:
      return assertNever(because.code);
  }
}

function describeFragments(reason: WaitReason, explained: PoolExplanation | undefined): string {
  return `the free amounts of pool ${reason.pool} suffice in sum, but not on single machines: ${describePartsOf(reason, explained)}`;
}

/** Names the request that is granted first, with the numbers that decide. */
function describeBehind({ requestsAhead, reservation }: Omit<Explanation, "message">, reason: WaitReason): string {
  const ahead = requestsAhead?.listed.find(({ sequence }) => sequence === reason.behind);
  if (ahead === undefined) return "the machines or quota that it needs are kept for a request that goes first";
  const { owner, queue, priority, rule, compared } = ahead;
  const whom = `the machines or quota that it needs are kept for ${ownerName(owner)}${queue === undefined ? "" : ` of queue ${queue}`}, which goes first`;
  if (rule === "WEIGHT") return `${whom}: its queue ${reservation.queue ?? ""} has the weight 0 and would borrow`;
  if (compared !== undefined && rule === "QUOTA")
    return `${whom}: queue ${compared.own.queue} would have to borrow more than ${compared.other.queue}`;
  if (compared !== undefined && rule === "SHARE")
    return `${whom}: the share of queue ${compared.other.queue} with it is ${describeShare(compared.other)}, that of ${compared.own.queue} with this request ${describeShare(compared.own)}`;
  return `${whom}: its priority is ${priority}, that of this request ${reservation.priority}`;
}

function describeShare({ share, pastShareMillionths }: ComparedQueue): string {
  const past = pastShareMillionths === 0 ? "" : `, ${pastShareMillionths / 1_000_000} of it by past use`;
  return `${printShare(share)}${past}`;
}

function describeQueueWait(code: QueueObstacle["code"], { queue = "", quota }: WaitReason): string {
  switch (code) {
    case "QUEUE_UNKNOWN":
      return `its queue ${queue} does not exist`;
    case "QUEUE_HELD":
      return `its queue ${queue} admits nothing at present`;
    case "BEHIND_STRICT_HEAD":
      return `its queue ${queue} is StrictFIFO, and another request is first`;
    case "WAITING_FOR_QUOTA":
      return `queue ${queue} can get ${quota === undefined ? "too little" : describeQuota(quota)}`;
    case "KEPT_FOR_OWNER": {
      const what = quota === undefined ? "quota" : `${quota.resource} in pool ${quota.pool}`;
      return `queue ${queue} would have to borrow ${what}, which is kept for a queue that waits for its own`;
    }
    default:
      return assertNever(code);
  }
}

function describeQuota({ pool, resource, requested, available }: QuotaShortage): string {
  const [has, needs] = [available, requested].map((amount) => printAmount(resource, amount));
  return `${has} of ${resource} in pool ${pool} now, ${needs} ${needs === "1" ? "is" : "are"} needed`;
}

function describeLimit(kind: string, granted: number, limit: number): string {
  return `${countOf(granted, "reservation")} of kind ${kind} ${isOrAre(granted)} granted, and the limit is ${limit}`;
}

function needed({ requested }: Pick<WaitReason, "requested">): string {
  return `${requested} ${isOrAre(requested)} needed`;
}

function isOrAre(count: number): string {
  return count === 1 ? "is" : "are";
}

function describeHold(hold: Explanation["hold"]): string {
  return `${hold === undefined ? "an older request" : ownerName(hold.reservation.owner)}, which has waited too long`;
}

function describeShortage(reason: WaitReason, explained: PoolExplanation | undefined): string {
  const { pool, available, requested, parts } = reason;
  const among = acceptedNodes(reason);
  const elasticMax = explained?.elasticMax;
  const growth = elasticMax === undefined ? "" : `; it may grow to ${elasticMax}`;
  if (parts > 0) return `${describePartsOf(reason, explained)}${growth}`;
  if (elasticMax === undefined)
    return `pool ${pool} has ${countOf(available, "machine")} free for it${among}, ${needed({ requested })}`;
  return `pool ${pool} has ${available} of ${countOf(requested, "machine")}${among}${growth}`;
}

function describeTooSmall(reason: WaitReason, explained: PoolExplanation | undefined): string {
  const { pool, requested, parts, topology } = reason;
  const all = parts === 0 ? countOf(requested, "machine") : describeMixed(requested, parts);
  const where = topology === undefined ? "" : ` on nodes with one value of the label ${topology.key}`;
  const now = explained === undefined ? "" : `; it has ${countOf(explained.capacity, "usable machine")} now`;
  const broken =
    explained === undefined ? "" : describePool({ ...explained, holders: { listed: [], more: 0 }, elasticMax: 0 });
  return `pool ${pool} is too small now for ${all}${acceptedNodes(reason)}${where}, and it waits for nodes to come back${now}${broken}`;
}

function describeDomain({ available, requested, parts }: WaitReason, { key, value }: DomainRoom): string {
  if (value === "") return `no node that it accepts has the label ${key}`;
  const all = parts === 0 ? countOf(requested, "machine") : describeMixed(requested, parts);
  return `nodes with one value of the label ${key} are needed for ${all}, and most fit with ${value}: ${available}`;
}

function acceptedNodes({ nodes }: WaitReason): string {
  return nodes === undefined ? "" : ` on the nodes that it accepts (${nodes})`;
}

function describePartsOf(reason: WaitReason, explained: PoolExplanation | undefined): string {
  const { pool, available, requested, parts } = reason;
  const room = `pool ${pool} has room for ${available} of ${describeMixed(requested, parts)}${acceptedNodes(reason)}`;
  const { listed = [], more = 0 } = explained?.parts ?? {};
  const kinds = listed.slice(0, MAX_NAMED).map(describePartDemand);
  const others = listed.length + more - kinds.length;
  const named = [...kinds, ...(others > 0 ? [`and ${others} more sizes`] : [])].join(", ");
  const short = listed.find(({ shortage }) => shortage !== undefined)?.shortage;
  const has = reason.nodes === undefined ? "the pool has" : "the nodes that it accepts have";
  const shortage = short ? describePartShortage(short, has, explained?.amounts) : "";
  return `${room}${named === "" ? "" : `; needs ${named}`}${shortage}`;
}

/** Resources that every node has come first. */
const FIRST = ["cpu", "memory"];

function rankOf(resource: string): number {
  return FIRST.includes(resource) ? FIRST.indexOf(resource) : FIRST.length;
}

function describePartDemand({ requests, requested, fitting }: PartDemand): string {
  const amounts = [...requests]
    .filter(([, amount]) => amount > 0)
    .sort(([a], [b]) => rankOf(a) - rankOf(b) || (a < b ? -1 : 1))
    .map(([name, amount]) => `${name} ${printAmount(name, amount)}`);
  const fit = fitting === requested ? "all fit" : `${fitting} ${fitting === 1 ? "fits" : "fit"} now`;
  return `${requested} × (${amounts.length === 0 ? "no requests" : amounts.join(", ")}), ${fit}`;
}

function describePartShortage(
  { node, placed, resources }: PartShortage,
  has: string,
  amounts: PoolAmounts | undefined,
): string {
  if (node === undefined) return "; no machine of it can be granted in parts now";
  const names = resources.map(({ resource }) => resource).join(" and ");
  const free = resources.map(({ resource, free }) => roundAmount(resource, free)).join(" and ");
  const totals = resources.map(({ resource }) => {
    const [left, all] = [amounts?.free.get(resource) ?? 0, amounts?.allocatable.get(resource) ?? 0];
    return `${roundAmount(resource, left)} of ${roundAmount(resource, all)}`;
  });
  const state = placed === 0 ? "free" : "left";
  return `; ${names} ${resources.length === 1 ? "is" : "are"} short: ${node} has ${free} ${state}, ${has} ${totals.join(" and ")} free`;
}

function describeMixed(
  requested: number,
  parts: number,
  one = "part of a machine",
  several = "parts of machines",
): string {
  const named = requested === parts ? [] : [countOf(requested - parts, "machine")];
  return [...named, parts === 1 ? `1 ${one}` : `${parts} ${several}`].join(" and ");
}

function describePool({ capacity, elasticMax, unusable, holders }: PoolExplanation): string {
  const nodes = unusable.listed.length + unusable.more;
  const shared = unusable.listed.filter(({ reason }) => reason === "FOREIGN_USE");
  const broken = nodes === shared.length ? "" : `; ${countOf(nodes - shared.length, "node")} cannot be granted`;
  const size = elasticMax === undefined ? ` (of ${capacity})` : "";
  return `${size}${named(holders, "held by")}${broken}${describeForeign(shared)}`;
}

function describeForeign(nodes: readonly UnusableNode[]): string {
  if (nodes.length === 0) return "";
  const pods = nodes.flatMap(({ foreign }) => foreign?.examples ?? []).slice(0, MAX_NAMED);
  const examples = pods.length === 0 ? "" : ` (${pods.join(", ")})`;
  return `; ${countOf(nodes.length, "node")} ${nodes.length === 1 ? "has" : "have"} pods that the ledger does not know${examples}`;
}

function named(holders: TruncatedList<Holder> | undefined, verb: string): string {
  if (holders === undefined || holders.listed.length === 0) return "";
  const names = holders.listed.slice(0, MAX_NAMED).map((holder) => `${ownerName(holder.owner)} (${holdingOf(holder)})`);
  const more = holders.listed.length + holders.more - names.length;
  return `; ${verb} ${names.join(", ")}${more === 0 ? "" : ` and ${more} more`}`;
}

function describeGrant(machines: readonly Pick<Machine, "shared">[]): string {
  const parts = machines.filter(({ shared }) => shared !== undefined).length;
  return parts === 0 ? countOf(machines.length, "machine") : describeMixed(machines.length, parts);
}

function holdingOf({ machines, parts }: Holder): string {
  if (parts === 0) return String(machines);
  return describeMixed(machines, parts, "part", "parts");
}

function ownerName({ kind, id }: Owner): string {
  return `${kind} ${id}`;
}

function countOf(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

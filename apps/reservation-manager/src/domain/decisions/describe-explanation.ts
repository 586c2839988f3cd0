import { assertNever } from "@muster/faults";
import type { Bounded, Explanation, Holder, PoolExplanation } from "./explanation.ts";
import type { WaitReason } from "./explain-waiting.ts";
import type { UnusableNode } from "../ledger/machines.ts";
import type { Owner } from "@muster/names";

/** Names in one sentence; the explanation has the rest. */
const MAX_NAMED = 3;

/** One sentence for people: what is missing, who has it, and how many are looked at earlier. */
export function describeExplanation(facts: Omit<Explanation, "message">): string {
  const { reservation, because, pools, concurrency, hold } = facts;
  if (reservation.grant !== undefined) return `holds ${countOf(reservation.grant.machines.length, "machine")}`;
  if (because === undefined) return "nothing stands in the way: it is granted next";
  const pool = pools.find((one) => one.pool === because.pool);
  const queue = because.ahead === 0 ? "" : `; ${countOf(because.ahead, "request")} ahead of it`;
  switch (because.code) {
    case "POOLS_NOT_KNOWN_YET":
      return `not all nodes are known at present; ${because.available} of ${because.requested} machines of pool ${because.pool} are known to be free${queue}`;
    case "CONCURRENCY_LIMIT":
      return `${describeLimit(reservation.owner.kind, concurrency?.granted ?? 0, concurrency?.limit ?? 0)}${named(concurrency?.holders, "held by")}${queue}`;
    case "HELD_FOR_OLDER":
      return `pool ${because.pool} has ${countOf(pool?.available ?? 0, "machine")} free, ${needed(because)}, and ${pool?.kept ?? 0} ${isOrAre(pool?.kept ?? 0)} kept for ${hold === undefined ? "an older request" : ownerName(hold.reservation.owner)}, which has waited too long${queue}`;
    case "POOL_AVAILABILITY":
      return `${describeShortage(because, pool?.elasticMax)}${pool === undefined ? "" : describePool(pool)}${queue}`;
    default:
      return assertNever(because.code);
  }
}

function describeLimit(kind: string, granted: number, limit: number): string {
  return `${countOf(granted, "reservation")} of kind ${kind} ${isOrAre(granted)} granted, and ${limit} at once ${isOrAre(limit)} allowed`;
}

function needed({ requested }: Pick<WaitReason, "requested">): string {
  return `${requested} ${isOrAre(requested)} needed`;
}

function isOrAre(count: number): string {
  return count === 1 ? "is" : "are";
}

function describeShortage(reason: WaitReason, elasticMax: number | undefined): string {
  const { pool, available, requested, parts, nodes } = reason;
  const among = nodes === undefined ? "" : ` on the nodes that it accepts (${nodes})`;
  const growth = elasticMax === undefined ? "" : `; it may grow to ${elasticMax}`;
  if (parts > 0) return `pool ${pool} has room for ${available} of ${describeMixed(requested, parts)}${among}${growth}`;
  if (elasticMax === undefined)
    return `pool ${pool} has ${countOf(available, "machine")} free for it${among}, ${needed({ requested })}`;
  return `pool ${pool} has ${available} of ${countOf(requested, "machine")}${among}${growth}`;
}

function describeMixed(requested: number, parts: number): string {
  const named = requested === parts ? [] : [countOf(requested - parts, "machine")];
  return [...named, parts === 1 ? "1 part of a machine" : `${parts} parts of machines`].join(" and ");
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

function named(holders: Bounded<Holder> | undefined, verb: string): string {
  if (holders === undefined || holders.listed.length === 0) return "";
  const names = holders.listed.slice(0, MAX_NAMED).map(({ owner, machines }) => `${ownerName(owner)} (${machines})`);
  const more = holders.listed.length + holders.more - names.length;
  return `; ${verb} ${names.join(", ")}${more === 0 ? "" : ` and ${more} more`}`;
}

function ownerName({ kind, id }: Owner): string {
  return `${kind} ${id}`;
}

function countOf(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

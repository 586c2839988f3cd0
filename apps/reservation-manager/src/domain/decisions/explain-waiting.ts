import { amountsKey } from "@muster/resources";
import { obstacleTo, type DomainRoom, type Holds, type WaitCode } from "./fit.ts";
import { findImpossible } from "./decide-reservation.ts";
import { demandOf, futureOf, isChanging, withoutKeptWork } from "./future.ts";
import type { Machines } from "../ledger/machines.ts";
import { viewKey, type PoolGang, type Reservation } from "../ledger/reservation.ts";
import { countAhead, placeOf } from "../ledger/waiting-queue.ts";
import type { World } from "../ledger/world.ts";
import type { QuotaShortage } from "./find-queue-obstacle.ts";

/** Why a reservation waits, with the numbers behind it. `ahead`: requests that are looked at earlier. */
export type WaitReason = {
  /**
   * POOL_TOO_SMALL: a new request like it would be refused, because the pool has lost nodes since. WAITING_FOR_PREEMPTED: work that is preempted for it has not
   * ended yet.
   */
  readonly code: WaitCode | "POOL_TOO_SMALL" | "WAITING_FOR_PREEMPTED";
  /** Empty for CONCURRENCY_LIMIT, and where the queue is the reason. */
  readonly pool: string;
  /** Machines of the pool, and parts of them, that are needed; for CONCURRENCY_LIMIT the grants that are needed, which is 1. */
  readonly requested: number;
  /** How many of `requested` are parts of machines. */
  readonly parts: number;
  /** Machines of the pool, or grants, that this request could have now. */
  readonly available: number;
  /** The nodes of the pool that count, in words; absent: each node without taints. */
  readonly nodes?: string;
  /** The domain with the most room; the numbers are those of all pools together there. */
  readonly topology?: DomainRoom;
  /** The queue that is the reason. */
  readonly queue?: string;
  /** With WAITING_FOR_QUOTA and KEPT_FOR_OWNER. */
  readonly quota?: QuotaShortage;
  readonly ahead: number;
};

/** Answers of `isTooLarge`: a page of a list has many requests that are alike. */
const answers = new WeakMap<Machines, Map<string, boolean>>();

function isTooLarge(gang: PoolGang, code: WaitCode, { machines }: World): boolean {
  if (code !== "POOL_AVAILABILITY" && code !== "WAITING_FOR_TOPOLOGY") return false;
  const needs = gang.needs.map((need) => `${viewKey(need)} ${need.count} ${need.shared.map(amountsKey).join("")}`);
  const key = `${gang.topology ?? ""} ${needs.join(" ")}`;
  const known = answers.get(machines) ?? new Map<string, boolean>();
  answers.set(machines, known);
  const fault = known.has(key) ? undefined : findImpossible(gang, machines);
  const answer = known.get(key) ?? (fault?.code === "pool_capacity" || fault?.code === "pool_unknown");
  known.set(key, answer);
  return answer;
}

/** The reason in force, given the holds in force (`findHolds`); undefined for a reservation that is granted or is about to be. */
export function explainWaiting(reservation: Reservation, world: World, holds: Holds): WaitReason | undefined {
  if (reservation.grant !== undefined) return undefined;
  const { queue } = reservation;
  const place = placeOf(reservation);
  const demand = demandOf(reservation);
  const ahead = countAhead(reservation, world.ledger.queue);
  const isPlaced = isChanging(world) && futureOf(world).placed.has(reservation.sequence);
  if (isPlaced && queue !== undefined)
    return { code: "WAITING_FOR_PREEMPTED", pool: "", requested: 0, parts: 0, available: 0, queue, ahead };
  const obstacle = obstacleTo(demand, place, withoutKeptWork(world), holds);
  if (obstacle === undefined) return undefined;
  if (obstacle.code === "CONCURRENCY_LIMIT")
    return { code: obstacle.code, pool: "", requested: 1, parts: 0, available: 0, ahead };
  if ("queue" in obstacle) return { ...obstacle, pool: "", requested: 0, parts: 0, available: 0, ahead };
  return { ...obstacle, ...(isTooLarge(demand, obstacle.code, world) && { code: "POOL_TOO_SMALL" }), ahead };
}

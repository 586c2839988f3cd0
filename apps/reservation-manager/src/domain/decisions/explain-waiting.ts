import { chooseOption, chooseReported, listOptions, type Option } from "./choose-option.ts";
import { findObstacle, type DomainRoom, type GrantObstacle, type OverdueHolds, type WaitCode } from "./fit.ts";
import { buildFutureWorld, isChanging, buildWorldForOthers } from "./future.ts";
import { refineWait, type PreciseWait } from "./refine-wait.ts";
import type { Reservation } from "../ledger/reservation.ts";
import { countAhead } from "../ledger/waiting-queue.ts";
import type { World } from "../ledger/world.ts";
import type { QuotaShortage } from "./find-queue-obstacle.ts";

/** The reason why a reservation waits, with its numbers. `ahead` counts the requests that are considered earlier. */
export type WaitReason = {
  /** WAITING_FOR_PREEMPTED: the work that is preempted for the request has not ended yet. */
  readonly code: WaitCode | PreciseWait["code"] | "WAITING_FOR_PREEMPTED";
  /** Empty for CONCURRENCY_LIMIT, and if the queue is the reason. */
  readonly pool: string;
  /** Needed machines and parts of the pool; for CONCURRENCY_LIMIT the needed grants, which is 1. */
  readonly requested: number;
  /** How many of `requested` are parts of machines. */
  readonly parts: number;
  /** Machines of the pool, or grants, that this request could get now. */
  readonly available: number;
  /** Describes the nodes of the pool that count; absent: each node without taints. */
  readonly nodes?: string;
  /** The domain with the most room. The numbers sum all pools in that domain. */
  readonly topology?: DomainRoom;
  /** The queue that is the cause. */
  readonly queue?: string;
  /** Set with WAITING_FOR_QUOTA and KEPT_FOR_OWNER, and if quota is kept for the request `behind`. */
  readonly quota?: QuotaShortage;
  readonly ahead: number;
  /** Set with BEHIND_HIGHER_PRIORITY and BEHIND_FAIR_SHARE: the sequence of the request that is granted first. */
  readonly behind?: number;
};

const NO_MACHINES = { pool: "", requested: 0, parts: 0, available: 0 };

/** Returns why the reservation waits, given the holds in force (`findHolds`); undefined: it is granted or the next plan grants it. */
export function explainWaiting(reservation: Reservation, world: World, holds: OverdueHolds): WaitReason | undefined {
  if (reservation.grant !== undefined) return undefined;
  const { queue } = reservation;
  const ahead = countAhead(reservation, world.ledger.queue);
  const isPlaced = isChanging(world) && buildFutureWorld(world).placed.has(reservation.sequence);
  if (isPlaced && queue !== undefined) return { code: "WAITING_FOR_PREEMPTED", ...NO_MACHINES, queue, ahead };
  const open = buildWorldForOthers(world);
  const options = listOptions(reservation);
  const obstacleOf = ({ demand, place }: Option): GrantObstacle | undefined => findObstacle(demand, place, open, holds);
  if (chooseOption(options, open, (option) => obstacleOf(option) !== undefined) !== undefined) return undefined;
  const reported = chooseReported(options, world);
  const obstacle = obstacleOf(reported);
  if (obstacle === undefined) return undefined;
  const { demand, place } = reported;
  if (obstacle.code === "CONCURRENCY_LIMIT")
    return { code: obstacle.code, pool: "", requested: 1, parts: 0, available: 0, ahead };
  const precise = refineWait(obstacle, { demand, place }, { world, open, holds });
  const isBehind = precise !== undefined && "behind" in precise;
  const ofQueue = isBehind && queue !== undefined ? { queue } : {};
  if ("queue" in obstacle) return { ...NO_MACHINES, ...obstacle, ...precise, ahead };
  return { ...obstacle, ...precise, ...ofQueue, ahead };
}

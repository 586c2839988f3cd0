import { countByPool, type Need, type Reservation } from "../ledger/reservation.ts";
import { listRequestOptions, type QueuePosition } from "../ledger/waiting-queue.ts";
import type { World } from "../ledger/world.ts";
import { getForest } from "../ledger/queue-forest.ts";
import { computeDemandLevel } from "./find-queue-obstacle.ts";
import type { Demand } from "./fit.ts";
import { findQuotaTooSmall, isPossible } from "./queue-heads.ts";

/** A way to grant a request: its needs with one choice of pools. */
export type Option = { readonly needs: readonly Need[]; readonly demand: Demand; readonly place: QueuePosition };

/** Lists the options in order of preference. */
export function listOptions(reservation: Reservation): readonly [Option, ...Option[]] {
  const [first, ...others] = listRequestOptions(reservation).map(({ needs, place }) => {
    return { needs, place, demand: demandOf(reservation, needs) };
  });
  if (first === undefined) throw new Error(`reservation ${reservation.sequence} needs nothing`);
  return [first, ...others];
}

function demandOf({ owner, topology, queue, notPreemptible }: Reservation, needs: readonly Need[]): Demand {
  return { ownerKind: owner.kind, needs: countByPool(needs), topology, queue, notPreemptible };
}

/**
 * Chooses the option to grant. Of the options without an obstacle, the nearest sufficient quota decides, then the order of preference. So a request uses the
 * quota that its queue owns in any pool before it borrows in the preferred pool.
 */
export function chooseOption<Chosen extends Pick<Option, "demand" | "place">>(
  options: readonly Chosen[],
  world: World,
  isBlocked: (option: Chosen) => boolean,
): Chosen | undefined {
  const open = options.filter((option) => !isBlocked(option));
  if (open.length < 2) return open[0];
  const [first] = open
    .map((option) => ({ option, level: computeDemandLevel(option.demand, option.place, world) }))
    .sort((a, b) => a.level - b.level);
  return first?.option;
}

/** Chooses the option that explains a wait: the first that can ever be granted. */
export function chooseReported<Reported extends Pick<Option, "demand">>(
  options: readonly [Reported, ...Reported[]],
  { ledger, machines }: World,
): Reported {
  const [first, ...others] = options;
  if (others.length === 0) return first;
  const mayBeGranted = ({ demand }: Reported): boolean => {
    const node = getForest(ledger.queues).get(demand.queue ?? "");
    return isPossible(demand, machines) && (!node || findQuotaTooSmall(node, demand, machines) === undefined);
  };
  return options.find(mayBeGranted) ?? first;
}

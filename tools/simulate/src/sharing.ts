import { makeRandom } from "@muster/chaos/random";
import { startForeignPods, type ForeignPods } from "./foreign-pods.ts";
import { drawParts, startPartOwners, type PartOwners } from "./part-owners.ts";
import { watchRoom } from "./room-checks.ts";
import type { Violation } from "./step-checks.ts";
import type { World } from "./world.ts";

/** The work beside sessions on the same machines. */
export type Sharing = {
  readonly owners: PartOwners;
  readonly foreign: ForeignPods;
  readonly stop: () => void;
};

export type SharingOptions = {
  readonly seed: number;
  readonly parts: number;
  readonly windowMs: number;
  readonly untilMs: number;
};

/** Starts owners of parts and foreign pods, drawn from sources of their own, and checks each grant against them. */
export function startSharing(
  world: World,
  violations: Violation[],
  { seed, parts, windowMs, untilMs }: SharingOptions,
): Sharing {
  const stop = new AbortController();
  const started: { sharing?: Sharing } = {};
  const watch = watchRoom(world, violations, {
    residents: () => started.sharing?.foreign.residents ?? new Set(),
    owners: () => started.sharing?.owners,
  });
  const foreign = startForeignPods(world, { seed, untilMs, grantedNodes: watch.grantedNodes });
  const owners = startPartOwners(world, drawParts(makeRandom(seed, "parts"), parts, windowMs), stop.signal);
  started.sharing = { owners, foreign, stop: () => stop.abort() };
  return started.sharing;
}

export function isAllDone({ owners: { plans, done } }: Sharing): boolean {
  return plans.every(({ id }) => done.has(id));
}

/** Returns the owners whose work fits and has not ended. */
export function judgeSharing(world: World, sharing: Sharing | undefined): Violation[] {
  if (sharing === undefined) return [];
  const { plans, done } = sharing.owners;
  return plans
    .filter(({ id }) => !done.has(id))
    .map(({ id, needs }) => ({
      atMs: world.time.nowMs,
      session: id,
      rule: "work that fits is finished in the end",
      found: `${id} with ${needs.length} needs is not done`,
    }));
}

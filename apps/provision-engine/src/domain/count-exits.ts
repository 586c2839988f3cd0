import type { LeaseReason } from "./lease-reason.ts";
import type { CrashWindow } from "./lease.ts";

/** The container exits that a pod reports: their number, and the time and cause of the last one. */
export type PodExits = {
  readonly pod: string;
  readonly startedNs: bigint;
  readonly exits: number;
  readonly lastNs: bigint;
  /** The end of the last exit for people: `exit code 137 (OOMKilled)`. */
  readonly how: string;
};

/** The fields of a pod from which exits are read, with times in the format of the API server. */
type PodStatus = {
  readonly metadata?: {
    readonly uid?: string;
    readonly deletionTimestamp?: unknown;
    readonly creationTimestamp?: unknown;
  };
  readonly status?: {
    readonly phase?: string;
    readonly containerStatuses?: readonly ContainerStatus[];
  };
};

type ContainerStatus = {
  readonly restartCount: number;
  readonly state?: { readonly running?: unknown; readonly terminated?: Terminated };
  readonly lastState?: { readonly terminated?: Terminated };
};

type Terminated = { readonly exitCode: number; readonly reason?: string; readonly finishedAt?: unknown };

export type CrashPolicy = { readonly windowNs: bigint };

type CrashVerdict =
  | { readonly kind: "nothing"; readonly because: LeaseReason }
  | { readonly kind: "count"; readonly crashes: CrashWindow; readonly because: LeaseReason }
  | { readonly kind: "give-up"; readonly because: LeaseReason };

/** Exits within one window after which the lease ends. */
export const MAX_EXITS = 4;

/** Exceeds the number of pods that can end within one window. */
const MAX_COUNTED_PODS = 20;
const NS_PER_MS = 1_000_000n;

/**
 * Reads the exits of a pod whose container restarts. The last exit of a pod that is being deleted or has failed does not count: Kubernetes ended it. A
 * container that has exited and not restarted yet has one more exit than restarts.
 */
export function readExits({ metadata, status }: PodStatus): PodExits {
  const wasEnded = metadata?.deletionTimestamp !== undefined || status?.phase === "Failed";
  let exits = 0;
  let last: Terminated | undefined;
  for (const { restartCount, state, lastState } of status?.containerStatuses ?? []) {
    const latest = state?.terminated ?? lastState?.terminated;
    const isDown = latest !== undefined && state?.running === undefined;
    exits += restartCount + (isDown && !wasEnded ? 1 : 0);
    const counted = wasEnded ? lastState?.terminated : latest;
    if (counted !== undefined && (last === undefined || parseTime(counted.finishedAt) > parseTime(last.finishedAt)))
      last = counted;
  }
  const startedNs = parseTime(metadata?.creationTimestamp);
  return {
    pod: metadata?.uid ?? "",
    startedNs,
    exits,
    lastNs: last === undefined ? startedNs : parseTime(last.finishedAt),
    how: last === undefined ? "an unknown exit code" : `exit code ${last.exitCode} (${last.reason ?? "no reason"})`,
  };
}

/** Explains why a container is unavailable if it crashes repeatedly. Counts the exits of the whole life of the pod; undefined if too few occurred. */
export function describeCrashes(pods: readonly PodExits[]): string | undefined {
  const crashing = pods.find(({ exits }) => exits >= MAX_EXITS);
  return crashing && `is not available and has exited ${crashing.exits} times, last with ${crashing.how}`;
}

/**
 * Counts exits that were not counted before. A pod reports only its number of exits and the time of the last one. So several new exits count only if all of
 * them must lie within one window. All times come from the clocks of the nodes, not from the engine.
 */
export function countExits(
  crashes: CrashWindow | undefined,
  pods: readonly PodExits[],
  { windowNs }: CrashPolicy,
): CrashVerdict {
  const fresh = pods
    // An exit before the window was counted earlier, even if its pod is no longer in the list: failed pods can stay for a long time.
    .filter(({ lastNs }) => crashes === undefined || lastNs >= crashes.sinceNs)
    .filter(({ pod, exits }) => exits > (crashes?.pods.find((each) => each.pod === pod)?.exits ?? 0))
    .toSorted((a, b) => Number(a.lastNs - b.lastNs));
  let next = crashes;
  for (const each of fresh) {
    next = addExits(next, each, windowNs);
    if (next.exits >= MAX_EXITS)
      return { kind: "give-up", because: { code: "exited-too-often", exits: next.exits, how: each.how } };
  }
  if (next === undefined || next === crashes) return { kind: "nothing", because: { code: "no-new-exit" } };
  return { kind: "count", crashes: next, because: { code: "container-exited", how: fresh.at(-1)?.how ?? "" } };
}

function addExits(before: CrashWindow | undefined, seen: PodExits, windowNs: bigint): CrashWindow {
  const known = before?.pods.find(({ pod }) => pod === seen.pod);
  const earliestNs = known?.lastNs ?? seen.startedNs;
  const missed = seen.exits - (known?.exits ?? 0);
  const count = seen.lastNs - earliestNs <= windowNs ? missed : 1;
  const { pod, exits, lastNs } = seen;
  const others = (before?.pods ?? []).filter((each) => each.pod !== pod);
  const pods = [...others, { pod, exits, lastNs }].slice(-MAX_COUNTED_PODS);
  if (before !== undefined && lastNs - before.sinceNs <= windowNs)
    return { sinceNs: before.sinceNs, exits: before.exits + count, pods };
  return { sinceNs: count > 1 ? earliestNs : lastNs, exits: count, pods };
}

function parseTime(text: unknown): bigint {
  const ms = typeof text === "string" ? Date.parse(text) : Number.NaN;
  return Number.isFinite(ms) ? BigInt(ms) * NS_PER_MS : 0n;
}

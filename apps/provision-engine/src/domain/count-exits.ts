/** What a pod says of its containers' ends: how many there were, and of the last one when it was, and how. */
export type PodExits = {
  readonly pod: string;
  readonly startedNs: bigint;
  readonly exits: number;
  readonly lastNs: bigint;
  /** `exit code 137 (OOMKilled)`. */
  readonly how: string;
};

/** The part of a pod that exits are read from; times as the API server writes them. */
export type PodStatus = {
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

/** Exits that were counted, in a window that begins with the first of them. */
export type CrashWindow = {
  readonly sinceNs: bigint;
  readonly exits: number;
  /** What is counted already, the pod that was seen last at the end. */
  readonly pods: readonly { readonly pod: string; readonly exits: number; readonly lastNs: bigint }[];
};

export type CrashPolicy = { readonly windowNs: bigint };

export type CrashVerdict =
  | { readonly kind: "nothing"; readonly because: string }
  | { readonly kind: "count"; readonly crashes: CrashWindow; readonly because: string }
  | { readonly kind: "give-up"; readonly because: string };

/** So many exits within the window are too many. */
export const MAX_EXITS = 4;

/** More than can have ended within one window. */
const MAX_COUNTED_PODS = 20;
const NS_PER_MS = 1_000_000n;

/**
 * Exits of a pod whose container is started again and again. A pod that is being deleted, or that has failed as a whole, was ended by somebody: its last end is none of the container's own.
 * A container that waits after an end has ended once more than it was restarted.
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
    if (counted !== undefined && (last === undefined || timeOf(counted.finishedAt) > timeOf(last.finishedAt)))
      last = counted;
  }
  const startedNs = timeOf(metadata?.creationTimestamp);
  return {
    pod: metadata?.uid ?? "",
    startedNs,
    exits,
    lastNs: last === undefined ? startedNs : timeOf(last.finishedAt),
    how: last === undefined ? "an unknown exit code" : `exit code ${last.exitCode} (${last.reason ?? "no reason"})`,
  };
}

/** What hinders a container that is not available, be it new or one that was for months: exits are those of the whole life of its pod. Undefined: nothing of that kind. */
export function describeCrashes(pods: readonly PodExits[]): string | undefined {
  const crashing = pods.find(({ exits }) => exits >= MAX_EXITS);
  return crashing && `is not available, and has exited ${crashing.exits} times, last with ${crashing.how}`;
}

/**
 * Counts the exits that pods tell of and that were not counted before. Only how many there were and when the last one was can be seen, so of those that came and went unseen only as many
 * count as are sure to lie within one window. The times are those of the nodes; the engine's own does not matter.
 */
export function countExits(
  crashes: CrashWindow | undefined,
  pods: readonly PodExits[],
  { windowNs }: CrashPolicy,
): CrashVerdict {
  const fresh = pods
    // What is older than the window was counted before it, also where that is not remembered any more: pods that have failed may stay for long.
    .filter(({ lastNs }) => crashes === undefined || lastNs >= crashes.sinceNs)
    .filter(({ pod, exits }) => exits > (crashes?.pods.find((each) => each.pod === pod)?.exits ?? 0))
    .toSorted((a, b) => Number(a.lastNs - b.lastNs));
  let next = crashes;
  for (const each of fresh) {
    next = addExits(next, each, windowNs);
    if (next.exits >= MAX_EXITS)
      return { kind: "give-up", because: `exited ${next.exits} times, last with ${each.how}` };
  }
  if (next === undefined || next === crashes)
    return { kind: "nothing", because: "no container has exited that was not counted" };
  return { kind: "count", crashes: next, because: `its container has exited, ${fresh.at(-1)?.how ?? ""}` };
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

function timeOf(text: unknown): bigint {
  const ms = typeof text === "string" ? Date.parse(text) : Number.NaN;
  return Number.isFinite(ms) ? BigInt(ms) * NS_PER_MS : 0n;
}

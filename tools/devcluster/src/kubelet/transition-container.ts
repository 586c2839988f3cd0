import type { WaitingReason } from "./pod-runtime.ts";

/** The end of one run of a container; `startedAtMs` is absent if it never started. */
export type EndedRun = {
  readonly exitCode: number;
  readonly reason: "Completed" | "Error" | "StartError" | "ContainerStatusUnknown";
  readonly message: string | undefined;
  readonly startedAtMs: number | undefined;
  readonly finishedAtMs: number;
  readonly containerId: string;
};

export type ContainerState =
  | {
      readonly is: "waiting";
      readonly reason: WaitingReason | "PodInitializing" | "CrashLoopBackOff";
      readonly message?: string;
      /** The time of the next try; absent: as soon as it is this container's turn. */
      readonly retryAtMs?: number;
    }
  | { readonly is: "running"; readonly startedAtMs: number; readonly containerId: string }
  | { readonly is: "ended"; readonly run: EndedRun };

export type ContainerKind = "init" | "sidecar" | "main";

/** The kubelet's record of one container of one pod. */
export type ContainerRecord = {
  readonly name: string;
  /** A sidecar is an init container that keeps running: `restartPolicy: Always`. */
  readonly kind: ContainerKind;
  readonly state: ContainerState;
  /** The run before the present one. */
  readonly last: EndedRun | undefined;
  /** Number of runs, including failed starts. */
  readonly runs: number;
  /** Restarts since the last run of at least ten minutes: the exponent of the back-off. */
  readonly restartsInARow: number;
  readonly ready: boolean;
  /** The strongest signal sent to the present run. */
  readonly signalled: "SIGTERM" | "SIGKILL" | undefined;
};

export type ContainerEvent =
  | {
      readonly event: "delayed";
      readonly reason: WaitingReason;
      readonly message?: string;
      readonly retryAtMs: number;
    }
  | { readonly event: "held"; readonly message: string; readonly untilMs: number }
  | { readonly event: "started"; readonly atMs: number; readonly containerId: string }
  | { readonly event: "signalled"; readonly signal: "SIGTERM" | "SIGKILL" }
  | { readonly event: "probed"; readonly ready: boolean }
  | { readonly event: "ended"; readonly run: EndedRun };

export const BACKOFF_FIRST_MS = 10_000;
export const BACKOFF_MAX_MS = 300_000;
/** A run of this length resets the back-off. */
export const BACKOFF_FORGET_MS = 600_000;

export function makeContainer(name: string, kind: ContainerKind, podHasInit: boolean): ContainerRecord {
  const reason = podHasInit && kind === "main" ? "PodInitializing" : "ContainerCreating";
  return {
    name,
    kind,
    state: { is: "waiting", reason },
    last: undefined,
    runs: 0,
    restartsInARow: 0,
    ready: false,
    signalled: undefined,
  };
}

/** One step in the life of a container. */
export function transitionContainer(record: ContainerRecord, change: ContainerEvent): ContainerRecord {
  switch (change.event) {
    case "delayed": {
      const { reason, message, retryAtMs } = change;
      const state = { is: "waiting", reason, retryAtMs, ...(message === undefined ? {} : { message }) } as const;
      return { ...record, state, last: findLastRun(record) };
    }
    case "held": {
      const { message, untilMs } = change;
      const state = { is: "waiting", reason: "CrashLoopBackOff", message, retryAtMs: untilMs } as const;
      return { ...record, state, last: findLastRun(record) };
    }
    case "started": {
      const { atMs, containerId } = change;
      return { ...begun(record), state: { is: "running", startedAtMs: atMs, containerId } };
    }
    case "signalled":
      return { ...record, signalled: change.signal };
    case "probed":
      return { ...record, ready: change.ready };
    case "ended": {
      // A start that failed has no "started" before it.
      const next = record.state.is === "running" ? record : begun(record);
      const { startedAtMs, finishedAtMs } = change.run;
      const held = startedAtMs !== undefined && finishedAtMs - startedAtMs >= BACKOFF_FORGET_MS;
      const restartsInARow = held ? 0 : next.restartsInARow;
      return { ...next, state: { is: "ended", run: change.run }, ready: false, restartsInARow };
    }
  }
}

/** Returns the last ended run, which the status shows as the state or as the last state. */
export function findLastRun(record: ContainerRecord): EndedRun | undefined {
  return record.state.is === "ended" ? record.state.run : record.last;
}

function begun(record: ContainerRecord): ContainerRecord {
  const isRestart = findLastRun(record) !== undefined;
  return {
    ...record,
    last: findLastRun(record),
    runs: record.runs + 1,
    restartsInARow: record.restartsInARow + (isRestart ? 1 : 0),
    ready: false,
    signalled: undefined,
  };
}

/** Returns the pause before the next restart: none before the first, then 10 s, doubled up to 5 min. */
export function computeBackoffMs(restartsInARow: number): number {
  if (restartsInARow === 0) return 0;
  return Math.min(BACKOFF_MAX_MS, BACKOFF_FIRST_MS * 2 ** (restartsInARow - 1));
}

export function hasSucceeded(container: ContainerRecord): boolean {
  return container.state.is === "ended" && container.state.run.exitCode === 0;
}

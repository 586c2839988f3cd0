import { findFault, throwFault } from "@muster/faults";

/** One run of a member's container. A recreated pod, and a restarted container, begin another run with another log. */
export type ContainerRun = {
  readonly id: string;
  readonly pod: string;
  /** True if the run has ended and writes no more. */
  readonly isOver: boolean;
};

type LogRange = { readonly offset: number; readonly limitBytes: number };

/** The dependencies of reading the log of one member. */
export type LogDeps = {
  readonly now: () => number;
  /** Returns the newest run of the member; undefined before the first run has begun, and after the deletion of its pod. */
  readonly newest: () => ContainerRun | undefined;
  /** Returns an earlier run if it can still be read from this offset, although its pod no longer exists. */
  readonly kept: (id: string, offset: number) => ContainerRun | undefined;
  /** Whether the job has finished, so that no later run begins. */
  readonly isFinished: () => boolean;
  /** Resolves when the job may have changed, after `ms`, or at the signal. */
  readonly changed: (ms: number, signal: AbortSignal) => Promise<void>;
  /** Reads the present content of the log. Rejects with FaultError. */
  readonly read: (run: ContainerRun, range: LogRange, signal: AbortSignal) => Promise<Uint8Array>;
  /** Reads the content from the offset on, and waits for it during `waitMs`; `isOver` if no content follows. Rejects with FaultError. */
  readonly follow: (run: ContainerRun, range: LogRange, waitMs: number, signal: AbortSignal) => Promise<Followed>;
  /** Rejects with the fault of a member that has no log. */
  readonly refuseAbsent: () => never;
};

type Followed = { readonly bytes: Uint8Array; readonly isOver: boolean };

export type LogRequest = {
  readonly offset: number;
  /** Zero selects the maximum. */
  readonly limitBytes: number;
  /** Zero selects the present content. */
  readonly waitMs: number;
  /** The run of the offset; empty selects the newest. */
  readonly run: string;
};

type LogPart = {
  readonly bytes: Uint8Array;
  readonly nextOffset: number;
  readonly complete: boolean;
  /** The run of `bytes`; empty before any has begun. */
  readonly run: string;
  readonly pod: string;
};

const MAX_LOG_BYTES = 256 * 1024;
const MAX_LOG_WAIT_MS = 30_000;
/** Time limit of a read of an ended run: its log is complete, and is only read up to the offset. */
const ENDED_WAIT_MS = 5000;
/** The poll interval, because cached pods may lag slightly behind the log. */
const POLL_MS = 500;
const NOTHING = new Uint8Array();

/**
 * Reads the log of a member from an offset of a run on. With a wait, reading continues through the runs of the member and ends with the job. No run is skipped
 * as long as the client keeps up. Without a wait it reads the log of the newest run.
 */
export async function readLog(deps: LogDeps, request: LogRequest, signal: AbortSignal): Promise<LogPart> {
  const { offset, run, waitMs } = request;
  if (!Number.isSafeInteger(offset) || offset < 0) {
    return throwFault({ code: "invalid_request", field: "offset", reason: `${offset} is not an offset` });
  }
  const limitBytes = Math.min(request.limitBytes || MAX_LOG_BYTES, MAX_LOG_BYTES);
  if (waitMs === 0) return readNow(deps, { run, offset, limitBytes }, signal);
  return followRuns(deps, { run, offset, limitBytes }, Math.min(waitMs, MAX_LOG_WAIT_MS), signal);
}

type Place = LogRange & { readonly run: string };

async function readNow(deps: LogDeps, { run: id, offset, limitBytes }: Place, signal: AbortSignal): Promise<LogPart> {
  const run = deps.newest() ?? deps.refuseAbsent();
  const range = { offset: id === "" || id === run.id ? offset : 0, limitBytes };
  if (!run.isOver) return part(run, range.offset, await deps.read(run, range, signal), false);
  const { bytes, isOver } = await deps.follow(run, range, ENDED_WAIT_MS, signal);
  return part(run, range.offset, bytes, isOver);
}

async function followRuns(deps: LogDeps, start: Place, waitMs: number, signal: AbortSignal): Promise<LogPart> {
  const endMs = deps.now() + waitMs;
  const wasFinished = deps.isFinished();
  let place = start;
  let pod = "";
  for (;;) {
    // Read the state before the log, so that the read includes all output until the end of the job.
    const isFinished = deps.isFinished();
    const newest = deps.newest();
    const isNewest = place.run === "" || place.run === newest?.id;
    const run = isNewest ? newest : (deps.kept(place.run, place.offset) ?? newest);
    if (run !== undefined && run.id !== place.run) {
      place = { ...place, run: run.id, offset: place.run === "" ? place.offset : 0 };
    }
    pod = run?.pod ?? pod;
    const restMs = Math.max(0, endMs - deps.now());
    const { bytes, isOver } =
      run === undefined ? { bytes: NOTHING, isOver: true } : await followRun(deps, run, place, restMs, signal);
    if (run !== undefined && bytes.length > 0) return part(run, place.offset, bytes, false);
    if (newest !== undefined && run !== undefined && newest.id !== run.id) {
      place = { ...place, run: newest.id, offset: 0 };
      continue;
    }
    const isWaitOver = endMs - deps.now() <= 0 || signal.aborted;
    if (isWaitOver || (isFinished && isOver)) {
      // A policy may leave pods of a finished job running; a pod without output during a whole wait is no longer followed.
      const complete = isFinished && (isOver || (wasFinished && run?.isOver === false));
      return { bytes, nextOffset: place.offset, complete, run: place.run, pod };
    }
    await deps.changed(Math.min(POLL_MS, endMs - deps.now()), signal);
  }
}

/** Follows a run. A starting container, and a deleted pod, have no log. */
async function followRun(
  deps: LogDeps,
  run: ContainerRun,
  range: LogRange,
  waitMs: number,
  signal: AbortSignal,
): Promise<Followed> {
  try {
    return await deps.follow(run, range, run.isOver ? Math.max(waitMs, POLL_MS) : waitMs, signal);
  } catch (error) {
    const code = findFault(error)?.code;
    if (code !== "invalid_request" && code !== "not_found") throw error;
    return { bytes: NOTHING, isOver: code === "not_found" };
  }
}

function part({ id, pod }: ContainerRun, offset: number, bytes: Uint8Array, complete: boolean): LogPart {
  return { bytes, nextOffset: offset + bytes.length, complete, run: id, pod };
}

import { faultOf, throwFault } from "@muster/faults";

/** One life of a member's container. A pod that is made anew, and a container that starts again in its pod, begin another one, with another log. */
export type Run = {
  readonly id: string;
  readonly pod: string;
  /** It has ended, and writes no more. */
  readonly isOver: boolean;
};

export type LogRange = { readonly offset: number; readonly limitBytes: number };

/** What reading the log of one member needs from outside. */
export type LogDeps = {
  readonly now: () => number;
  /** Of the member; undefined before the first one has begun, and when its pod is gone. */
  readonly newest: () => Run | undefined;
  /** Whether more of an earlier run can be read, from this offset on, although its pod is gone. */
  readonly kept: (id: string, offset: number) => Run | undefined;
  /** Whether the job is over, and no run begins any more. */
  readonly isFinished: () => boolean;
  /** Resolves when something about the job may have changed, after so long, or at the signal. */
  readonly changed: (ms: number, signal: AbortSignal) => Promise<void>;
  /** What the log has now. Rejects with FaultError. */
  readonly read: (run: Run, range: LogRange, signal: AbortSignal) => Promise<Uint8Array>;
  /** What comes at the offset, waited for so long; `isOver` when nothing comes after it. Rejects with FaultError. */
  readonly follow: (run: Run, range: LogRange, waitMs: number, signal: AbortSignal) => Promise<Followed>;
  /** Rejects with the fault of a member that has no log. */
  readonly refuseAbsent: () => never;
};

export type Followed = { readonly bytes: Uint8Array; readonly isOver: boolean };

export type LogRequest = {
  readonly offset: number;
  /** 0: the most. */
  readonly limitBytes: number;
  /** 0: what is there now. */
  readonly waitMs: number;
  /** In which the offset counts; empty: the newest. */
  readonly run: string;
};

export type LogPart = {
  readonly bytes: Uint8Array;
  readonly nextOffset: number;
  readonly complete: boolean;
  /** Of which `bytes` are; empty while there is none. */
  readonly run: string;
  readonly pod: string;
};

const LOG_BYTES_MOST = 256 * 1024;
const LOG_WAIT_MOST_MS = 30_000;
/** The log of a run that is over is all there, and only has to be read up to the offset. */
const OVER_WAIT_MS = 5000;
/** What is known of pods may be behind the log by moments. */
const LOOK_AGAIN_MS = 500;
const NOTHING = new Uint8Array();

/**
 * The log of a member from an offset of a run on. Followed, the log of the member is that of its runs one after another, and ends with the job: nothing of a run is
 * left out as long as the asker keeps up with it. Not followed, it is that of the newest run.
 */
export async function readLog(deps: LogDeps, request: LogRequest, signal: AbortSignal): Promise<LogPart> {
  const { offset, run, waitMs } = request;
  if (!Number.isSafeInteger(offset) || offset < 0) {
    return throwFault({ code: "invalid_request", field: "offset", reason: `${offset} is not an offset` });
  }
  const limitBytes = Math.min(request.limitBytes || LOG_BYTES_MOST, LOG_BYTES_MOST);
  if (waitMs === 0) return readNow(deps, { run, offset, limitBytes }, signal);
  return followRuns(deps, { run, offset, limitBytes }, Math.min(waitMs, LOG_WAIT_MOST_MS), signal);
}

type Place = LogRange & { readonly run: string };

async function readNow(deps: LogDeps, { run: id, offset, limitBytes }: Place, signal: AbortSignal): Promise<LogPart> {
  const run = deps.newest() ?? deps.refuseAbsent();
  const range = { offset: id === "" || id === run.id ? offset : 0, limitBytes };
  if (!run.isOver) return part(run, range.offset, await deps.read(run, range, signal), false);
  const { bytes, isOver } = await deps.follow(run, range, OVER_WAIT_MS, signal);
  return part(run, range.offset, bytes, isOver);
}

async function followRuns(deps: LogDeps, start: Place, waitMs: number, signal: AbortSignal): Promise<LogPart> {
  const endMs = deps.now() + waitMs;
  const wasFinished = deps.isFinished();
  let place = start;
  let pod = "";
  for (;;) {
    // Before the log is looked at, so that what is written until the end of the job is seen.
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
      // A policy may leave pods of a finished job running; one that says nothing for a whole wait is followed no longer.
      const complete = isFinished && (isOver || (wasFinished && run?.isOver === false));
      return { bytes, nextOffset: place.offset, complete, run: place.run, pod };
    }
    await deps.changed(Math.min(LOOK_AGAIN_MS, endMs - deps.now()), signal);
  }
}

/** A container that is only starting, and a pod that is gone, have nothing to show. */
async function followRun(
  deps: LogDeps,
  run: Run,
  range: LogRange,
  waitMs: number,
  signal: AbortSignal,
): Promise<Followed> {
  try {
    return await deps.follow(run, range, run.isOver ? Math.max(waitMs, LOOK_AGAIN_MS) : waitMs, signal);
  } catch (error) {
    const code = faultOf(error)?.code;
    if (code !== "invalid_request" && code !== "not_found") throw error;
    return { bytes: NOTHING, isOver: code === "not_found" };
  }
}

function part({ id, pod }: Run, offset: number, bytes: Uint8Array, complete: boolean): LogPart {
  return { bytes, nextOffset: offset + bytes.length, complete, run: id, pod };
}

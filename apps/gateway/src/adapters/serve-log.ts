import { computeBackoffMs, pause } from "@muster/backoff";
import { findFault, isRetryable } from "@muster/faults";
import type { Route } from "@muster/gateway-api";
import type { Call } from "../api/answer-request.ts";
import type { HttpStream } from "./http-stream.ts";

/** Duration of a long poll. It is short, because a caller waits until its deadline for the reply of a service that died. */
const LONG_POLL_MS = 4000;
/** Wait for the first chunk. It is short, so that the headers of the answer are sent soon. */
const FIRST_POLL_MS = 500;
/** Pause after an empty chunk: a service answers immediately for a container that has not started. */
const EMPTY_PAUSE_MS = 250;
/** Retry delays while the service of a followed log does not answer. */
const RETRY = { firstMs: 250, maxMs: 5000 };
const MAX_FAILURES = 20;

type LogReply = {
  readonly chunk: Uint8Array;
  readonly nextOffset: number;
  readonly complete: boolean;
  /** The run of the member; only for jobs. */
  readonly run?: string;
};

/** Reads a log in consecutive chunks. */
export type LogReader = { readonly next: (from: LogReply | undefined, signal: AbortSignal) => Promise<LogReply> };

/** Creates a reader. `request` identifies the log. */
export function logReader(route: Route, request: Readonly<Record<string, unknown>>, call: Call): LogReader {
  const { follow = false, ...named } = request;
  return {
    next: async (from, signal) => {
      const place = from && { offset: from.nextOffset, ...(from.run !== undefined && { run: from.run }) };
      // Without a wait a service refuses a log that has not begun, and `complete` states only the end of one run.
      const followMs = from === undefined ? FIRST_POLL_MS : LONG_POLL_MS;
      // The cast is valid, because the table names a method with these fields.
      return (await call(
        route,
        { ...named, ...place, waitMs: follow === true ? followMs : 0 },
        signal,
      )) as unknown as LogReply;
    },
  };
}

/**
 * Writes a log from its first chunk to its end; a followed log, until the work is over. Waits during an outage of the service. If the rest of the log cannot be
 * read, breaks the connection, so that no client considers the log complete.
 */
export async function serveLog(
  stream: HttpStream,
  reader: LogReader,
  {
    first,
    follow,
    mayRead,
  }: { readonly first: LogReply; readonly follow: boolean; readonly mayRead: () => Promise<boolean> },
): Promise<void> {
  try {
    let piece = first;
    while (!stream.closed.aborted) {
      // The right is checked after the read, which may have waited for minutes.
      if (!(await mayRead())) break;
      await stream.write(piece.chunk);
      if (piece.complete || (!follow && piece.chunk.length === 0)) {
        stream.end();
        return;
      }
      if (piece.chunk.length === 0) await pause(EMPTY_PAUSE_MS, stream.closed);
      piece = await readWhileRetryable(reader, piece, stream.closed);
    }
  } catch (error) {
    if (findFault(error) === undefined) throw error;
  } finally {
    // Has no effect after the end.
    stream.break();
  }
}

async function readWhileRetryable(reader: LogReader, from: LogReply, signal: AbortSignal): Promise<LogReply> {
  for (let failures = 1; ; failures += 1) {
    try {
      return await reader.next(from, signal);
    } catch (error) {
      const fault = findFault(error);
      if (fault === undefined || !isRetryable(fault) || failures >= MAX_FAILURES) throw error;
      await pause(computeBackoffMs(failures, RETRY), signal);
    }
  }
}

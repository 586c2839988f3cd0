import type { ServerResponse } from "node:http";

/** Sends lines to one watcher. Watchers of the same events share lines, so that a waiting line needs no copy per watcher. */
export type WatchSink = {
  push(line: Buffer): void;
  /** Ends the answer once everything before has been sent. */
  end(): void;
};

/**
 * Sends `first` as fast as the client reads it, then pushed lines. The connection breaks once more than `backlogMaxBytes` of pushed lines wait, which bounds
 * the cost of a slow client.
 */
export function makeWatchSink(response: ServerResponse, first: Iterator<Buffer>, backlogMaxBytes: number): WatchSink {
  let waiting: Buffer[] = [];
  let waitingBytes = 0;
  let isBlocked = false;
  let hasBegun = false;
  let ends = false;
  let isScheduled = false;
  const pump = (): void => {
    if (response.destroyed) return;
    while (!isBlocked && !hasBegun) {
      const next = first.next();
      if (next.done === true) hasBegun = true;
      else isBlocked = !response.write(next.value);
    }
    if (isBlocked) return;
    if (waiting.length > 0) isBlocked = !response.write(Buffer.concat(waiting));
    waiting = [];
    waitingBytes = 0;
    if (ends) response.end();
  };
  const pumpLater = (): void => {
    isScheduled = true;
    // All lines of this turn become one write, because each write costs a system call and an encrypted record.
    setImmediate(() => {
      isScheduled = false;
      pump();
    });
  };
  response.on("drain", () => {
    isBlocked = false;
    pump();
  });
  pump();
  return {
    push: (line) => {
      if (ends || response.destroyed) return;
      waiting.push(line);
      waitingBytes += line.length;
      if (!isBlocked) {
        if (!isScheduled) pumpLater();
      } else if (waitingBytes > backlogMaxBytes) response.destroy();
    },
    end: () => {
      ends = true;
      pump();
    },
  };
}

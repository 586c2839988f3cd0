import type { ServerResponse } from "node:http";

/** The lines under way to one watcher. Watchers of the same events share them, so a waiting line costs no copy for each watcher. */
export type WatchSink = {
  push(line: Buffer): void;
  /** Ends the answer once everything before has been sent. */
  end(): void;
};

/**
 * Sends `first` as fast as the client reads it, then what is pushed. The connection breaks once more than `backlogMaxBytes` of pushed lines wait: a
 * client that reads so slowly has to begin again, and costs the server no more than that.
 */
export function watchSink(response: ServerResponse, first: Iterator<Buffer>, backlogMaxBytes: number): WatchSink {
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
    // All lines of this turn become one write: each costs a system call and an encrypted record.
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

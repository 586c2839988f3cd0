import { FaultError, findFault } from "@muster/faults";
import { describe, expect, it } from "vitest";
import { followLogs, type FollowLimits } from "./follow-logs.ts";

const LOG = { pod: "bench-driver", container: "main" };
const LONG_MS = 60_000;
const never = new AbortController().signal;

/** A log to which the test appends, and the streams that were opened to read it. */
function growingLog(limits: Partial<FollowLimits> = {}) {
  const written: Uint8Array[] = [];
  const opened: AbortSignal[] = [];
  let more = Promise.withResolvers<undefined>();
  let ended = false;
  let broken: Error | undefined;
  async function* read(closed: AbortSignal): AsyncGenerator<Uint8Array> {
    for (let next = 0; !closed.aborted;) {
      const chunk = written[next];
      if (chunk !== undefined) {
        next += 1;
        yield chunk;
        continue;
      }
      if (broken !== undefined) throw broken;
      if (ended) return;
      await more.promise;
    }
  }
  const wake = (): void => {
    more.resolve(undefined);
    more = Promise.withResolvers();
  };
  const followers = followLogs(
    (_log, closed) => {
      opened.push(closed);
      return read(closed);
    },
    { maxStreams: 4, idleMs: LONG_MS, ...limits },
  );
  return {
    opened,
    followers,
    write: (text: string) => {
      written.push(Buffer.from(text));
      wake();
    },
    end: () => {
      ended = true;
      wake();
    },
    breakOff: (error: Error) => {
      broken = error;
      wake();
    },
    read: async (offset: number, options: { limitBytes?: number; waitMs?: number; signal?: AbortSignal } = {}) => {
      const { limitBytes = 100, waitMs = LONG_MS, signal = never } = options;
      const { bytes } = await followers.read(LOG, { offset, limitBytes }, waitMs, signal);
      return Buffer.from(bytes).toString();
    },
  };
}

describe("followLogs", () => {
  it("reads new bytes from one stream, however often it is polled", async () => {
    const log = growingLog();
    log.write("one ");
    expect(await log.read(0)).toBe("one ");
    const next = log.read(4);
    log.write("two");
    expect(await next).toBe("two");
    expect(await log.read(7, { waitMs: 1 })).toBe("");
    log.write("three");
    expect(await log.read(7)).toBe("three");
    expect(log.opened).toHaveLength(1);
  });

  it("returns at most the limit, and then the rest", async () => {
    const log = growingLog();
    log.write("abcdef");
    expect(await log.read(0, { limitBytes: 4 })).toBe("abcd");
    expect(await log.read(4)).toBe("ef");
    expect(log.opened).toHaveLength(1);
  });

  it("starts at the offset of a reader that begins in the middle", async () => {
    const log = growingLog();
    for (const text of ["abc", "def", "ghi"]) log.write(text);
    expect(await log.read(5)).toBe("f");
    expect(await log.read(6)).toBe("ghi");
  });

  it("opens a stream for each of two readers of one log", async () => {
    const log = growingLog();
    const both = [log.read(0), log.read(0)];
    log.write("a");
    expect(await Promise.all(both)).toEqual(["a", "a"]);
    const again = [log.read(1), log.read(1)];
    log.write("b");
    expect(await Promise.all(again)).toEqual(["b", "b"]);
    expect(log.opened).toHaveLength(2);
  });

  it("answers immediately when the log has ended, and with no bytes when the caller stops waiting", async () => {
    const log = growingLog();
    log.write("all");
    const stop = new AbortController();
    expect(await log.read(0)).toBe("all");
    const waiting = log.read(3, { signal: stop.signal });
    stop.abort();
    expect(await waiting).toBe("");
    log.end();
    expect(await log.read(3)).toBe("");
    expect(await log.read(3)).toBe("");
    expect(log.opened).toHaveLength(1);
  });

  it("distinguishes the end of a log from silence", async () => {
    const log = growingLog();
    log.write("a");
    const isOver = async (offset: number, waitMs: number): Promise<boolean> =>
      (await log.followers.read(LOG, { offset, limitBytes: 100 }, waitMs, never)).isOver;
    expect(await isOver(0, LONG_MS)).toBe(false);
    expect(await isOver(1, 1)).toBe(false);
    log.end();
    expect(await isOver(1, LONG_MS)).toBe(true);
  });

  it("reopens a log a while after its end", async () => {
    const log = growingLog({ idleMs: 0 });
    log.end();
    expect(await log.read(0)).toBe("");
    expect(await log.read(0)).toBe("");
    expect(log.opened).toHaveLength(2);
  });

  it("keeps the rest of the log of a deleted pod, and treats the next pod of that name as another log", async () => {
    const log = growingLog();
    log.write("abcdef");
    expect(await log.read(0, { limitBytes: 4 })).toBe("abcd");
    expect(log.followers.keeps(LOG, 4)).toBe(true);
    expect(log.followers.keeps(LOG, 3)).toBe(false);
    expect(log.followers.keeps({ ...LOG, run: "second" }, 4)).toBe(false);
    expect(await log.read(4)).toBe("ef");
    expect(log.opened).toHaveLength(1);
  });

  it("reports a broken stream, and opens a new one at the next read", async () => {
    const log = growingLog();
    const fault = { code: "unavailable", dependency: "kubernetes", retryAfterMs: 0 } as const;
    log.breakOff(new FaultError(fault));
    expect(findFault(await log.read(0).catch((error: unknown) => error))).toEqual(fault);
    await log.read(0).catch(() => undefined);
    expect(log.opened).toHaveLength(2);
  });

  it("closes the stream that has been idle for longest when there are too many", async () => {
    const log = growingLog({ maxStreams: 2 });
    log.write("a");
    for (let user = 0; user < 3; user += 1) expect(await log.read(0)).toBe("a");
    expect(log.opened.map(({ aborted }) => aborted)).toEqual([true, false, false]);
  });

  it("refuses one more when all streams are in use", async () => {
    const log = growingLog({ maxStreams: 2 });
    const stop = new AbortController();
    const waiting = [log.read(0, { signal: stop.signal }), log.read(0, { signal: stop.signal })];
    const refused: unknown = await log.read(0).catch((error: unknown) => error);
    expect(findFault(refused)).toMatchObject({ code: "limit_exceeded", limit: 2, retryAfterMs: 1000 });
    stop.abort();
    expect(await Promise.all(waiting)).toEqual(["", ""]);
  });

  it("closes every stream when it is disposed", async () => {
    const log = growingLog();
    log.write("a");
    await log.read(0);
    log.followers[Symbol.dispose]();
    expect(log.opened.map(({ aborted }) => aborted)).toEqual([true]);
  });
});

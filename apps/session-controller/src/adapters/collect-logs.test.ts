import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { takeTurns } from "@muster/backoff";
import { FaultError } from "@muster/faults";
import { until } from "@muster/testkit";
import { describe, expect, it } from "vitest";
import { makeLivePod, makePodSeen, makeRunning } from "../../test/samples.ts";
import type { LivePod } from "../domain/snapshot.ts";
import { transitionRecord, type LogsRead } from "../domain/transition-record.ts";
import { collectLogs, type LogReading } from "./collect-logs.ts";
import { makeTail, type LogTail } from "./pod-logs.ts";

const record = makeRunning();
const pods = ["driver", "client-0", "server-0"].map((name) => makeLivePod(makePodSeen(name)));

/** Reads logs of one JSON line each, and records the stored lines. */
function reading(
  more: { keep?: LogReading["store"]["keep"] } & Partial<Pick<LogReading["logs"], "readTail" | "readEnd">> = {},
) {
  const kept: string[] = [];
  const tail: LogTail = { bytes: Buffer.from('{"qps":1}\n'), omittedBytes: 0, broken: undefined };
  const unused = () => Promise.reject(new Error("not asked for"));
  const from: LogReading = {
    logs: {
      readTail: more.readTail ?? (() => Promise.resolve(tail)),
      readEnd: more.readEnd ?? unused,
      readRange: unused,
      follow: () => {
        throw new Error("logs of what is over are not followed");
      },
    },
    store: {
      keep: more.keep ?? (({ pod }) => Promise.resolve(void kept.push(pod))),
      read: unused,
      forget: unused,
    },
    limitBytes: 1000,
    patienceMs: 20_000,
    resultPatienceMs: 20_000,
    turns: takeTurns(8),
    deadline: new AbortController().signal,
  };
  return { from, kept };
}

/** Returns the heap size after a garbage collection. */
async function heapAfterCollection(): Promise<number> {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  await new Promise(setImmediate);
  collect();
  return process.memoryUsage().heapUsed;
}

/** Returns the logs in the record once every pod is reported. */
async function collected(from: LogReading, of: typeof record, live: readonly LivePod[]) {
  const reads: LogsRead[] = [];
  await collectLogs(from, of, live, (read) => void reads.push(read));
  const { warnings, resultJson } = reads.reduce(transitionRecord, of);
  return { warnings, resultJson };
}

describe("collectLogs", () => {
  it("stores the log of every container of every pod, and the driver's result", async () => {
    const { from, kept } = reading();
    expect(await collected(from, record, pods)).toEqual({ warnings: [], resultJson: '{"qps":1}' });
    expect(kept.toSorted()).toEqual(["bench-client-0", "bench-driver", "bench-server-0"]);
  });

  it("uses the driver's result file as its result", async () => {
    const left = pods.map((pod) => ({ ...pod, leftText: pod.pod === "bench-driver" ? '{"file":1}' : '{"worker":1}' }));
    expect((await collected(reading().from, record, left)).resultJson).toBe('{"file":1}');
  });

  it("warns of a result file that is not JSON, and uses the log", async () => {
    const left = pods.map((pod) => ({ ...pod, leftText: '{"cut' }));
    const { warnings, resultJson } = await collected(reading().from, record, left);
    expect(warnings.map(({ code }) => code)).toEqual(["RESULT_LOST"]);
    expect(resultJson).toBe('{"qps":1}');
  });

  it("turns a full log store into one warning per log, without retries", async () => {
    let tries = 0;
    const keep = () => {
      tries += 1;
      return Promise.reject(
        new FaultError({ code: "limit_exceeded", what: "size of bucket logs", limit: 9, retryAfterMs: 0 }),
      );
    };
    const { warnings } = await collected(reading({ keep }).from, record, pods);
    expect(tries).toBe(3);
    expect(warnings.map(({ code }) => code)).toEqual(["LOGS_LOST", "LOGS_LOST", "LOGS_LOST"]);
    expect(warnings[0]?.message).toContain("size of bucket logs is over its limit of 9");
  });

  const away = { code: "unavailable", dependency: "kubernetes", retryAfterMs: 0 } as const;
  const beginning = () => Promise.resolve({ bytes: Buffer.from('{"progress":1}\n'), omittedBytes: 0, broken: away });

  it("keeps the part of a log that was read before a failure, warns, and ignores it for the result", async () => {
    const readEnd = () => Promise.reject(new FaultError(away));
    const { from, kept } = reading({ readTail: beginning, readEnd });
    const { warnings, resultJson } = await collected({ ...from, patienceMs: 0, resultPatienceMs: 0 }, record, pods);
    expect(kept).toHaveLength(3);
    expect(resultJson).toBe("");
    expect(warnings.map(({ code }) => code)).toEqual(["RESULT_LOST", "LOGS_LOST", "LOGS_LOST", "LOGS_LOST"]);
    expect(warnings[0]?.message).toBe("the end of the driver's log is missing: kubernetes is not available");
    expect(warnings[1]?.message).toContain("the end is missing");
  });

  it("finds the result at the end of a log that broke off before it", async () => {
    const readEnd = () => Promise.resolve({ bytes: Buffer.from('{"qps":9}\n'), omittedBytes: 0, broken: undefined });
    const { from } = reading({ readTail: beginning, readEnd });
    const { warnings, resultJson } = await collected(from, record, pods);
    expect(resultJson).toBe('{"qps":9}');
    expect(warnings.map(({ code }) => code)).toEqual(["LOGS_LOST", "LOGS_LOST", "LOGS_LOST"]);
  });

  it("has no result if the lines that may contain it were not read", async () => {
    const readEnd = () => Promise.resolve({ bytes: Buffer.from("bye\n"), omittedBytes: 0, broken: undefined });
    const { warnings, resultJson } = await collected(reading({ readTail: beginning, readEnd }).from, record, pods);
    expect(resultJson).toBe("");
    expect(warnings[0]?.code).toBe("RESULT_LOST");
  });

  it("keeps the logs and the result when the API server is unavailable for a while", async () => {
    let tries = 0;
    const readTail = (): Promise<LogTail> => {
      tries += 1;
      if (tries <= 3) {
        return Promise.reject(new FaultError({ code: "unavailable", dependency: "kubernetes", retryAfterMs: 0 }));
      }
      return Promise.resolve({ bytes: Buffer.from('{"qps":2}\n'), omittedBytes: 0, broken: undefined });
    };
    const live = pods.slice(0, 1);
    expect(await collected(reading({ readTail }).from, record, live)).toEqual({
      warnings: [],
      resultJson: '{"qps":2}',
    });
  });

  it("starts with the driver's log, and retries it longer than the others", async () => {
    const asked: string[] = [];
    const readTail: LogReading["logs"]["readTail"] = (pod) => {
      asked.push(pod);
      if (asked.filter((one) => one === "bench-driver").length < 2) return Promise.reject(new FaultError(away));
      return Promise.resolve({ bytes: Buffer.from('{"qps":3}\n'), omittedBytes: 0, broken: undefined });
    };
    const many = Array.from({ length: 20 }, (_, index) => makeLivePod(makePodSeen(`client-${index + 1}`)));
    const { from } = reading({ readTail });
    const { warnings, resultJson } = await collected({ ...from, patienceMs: 0 }, record, [...many, ...pods]);
    expect(asked[0]).toBe("bench-driver");
    expect(resultJson).toBe('{"qps":3}');
    expect(warnings.map(({ code }) => code)).toEqual(Array.from({ length: 22 }, () => "LOGS_LOST"));
  });

  it("reports a pod as soon as its logs are stored, while another log is still read", async () => {
    const { from } = reading();
    const driver = Promise.withResolvers<LogTail>();
    const readTail: LogReading["logs"]["readTail"] = (pod, ...rest) =>
      pod === "bench-driver" ? driver.promise : from.logs.readTail(pod, ...rest);
    const reads: string[] = [];
    const both = Promise.withResolvers<undefined>();
    const collecting = collectLogs({ ...from, logs: { ...from.logs, readTail } }, record, pods, ({ pod }) => {
      reads.push(pod);
      if (reads.length === 2) both.resolve(undefined);
    });
    await both.promise;
    expect(reads.toSorted()).toEqual(["bench-client-0", "bench-server-0"]);
    driver.resolve({ bytes: Buffer.from(""), omittedBytes: 0, broken: undefined });
    await collecting;
    expect(reads.at(-1)).toBe("bench-driver");
  });

  it("leaves no read in flight when it fails", async () => {
    const { from, kept } = reading();
    const slowly = async (): Promise<LogTail> => {
      await new Promise((resolve) => setTimeout(resolve, 30));
      return { bytes: Buffer.from("x"), omittedBytes: 0, broken: undefined };
    };
    const readTail: LogReading["logs"]["readTail"] = (pod, ...rest) =>
      pod === "bench-driver" ? from.logs.readTail(pod, ...rest) : slowly();
    const collecting = collectLogs({ ...from, logs: { ...from.logs, readTail } }, record, pods, ({ pod }) => {
      if (pod === "bench-driver") throw new Error("defect");
    });
    await expect(collecting).rejects.toThrow("defect");
    expect(kept.toSorted()).toEqual(["bench-client-0", "bench-driver", "bench-server-0"]);
  });

  it("holds no more logs in memory than the number of turns, however many sessions are collected", async () => {
    let held = 0;
    let maxHeld = 0;
    const readTail = (): Promise<LogTail> => {
      held += 1;
      maxHeld = Math.max(maxHeld, held);
      return new Promise((resolve) =>
        setImmediate(resolve, { bytes: Buffer.from(""), omittedBytes: 0, broken: undefined }),
      );
    };
    const keep = async (): Promise<void> => {
      await new Promise(setImmediate);
      held -= 1;
    };
    const from = { ...reading({ readTail, keep }).from, turns: takeTurns(2) };
    const all = await Promise.all(Array.from({ length: 5 }, () => collected(from, record, pods)));
    expect(maxHeld).toBe(2);
    expect(all.flatMap(({ warnings }) => warnings)).toEqual([]);
    expect(held).toBe(0);
  });

  it("drops the driver's log from memory while the other logs of its session are read", async () => {
    const DRIVER_LOG_BYTES = 2 ** 20;
    const other = Promise.withResolvers<LogTail>();
    const empty: LogTail = { bytes: Buffer.from(""), omittedBytes: 0, broken: undefined };
    const readTail: LogReading["logs"]["readTail"] = (pod) =>
      pod === "bench-driver"
        ? Promise.resolve({ ...empty, bytes: Buffer.alloc(DRIVER_LOG_BYTES, 'a line of the log\n{"qps":5}\n') })
        : other.promise;
    let kept = 0;
    const keep = (): Promise<void> => {
      kept += 1;
      return Promise.resolve();
    };
    const { from } = reading({ readTail, keep });
    const before = await heapAfterCollection();
    const sessions = Array.from({ length: 64 }, () => collected({ ...from, turns: takeTurns(8) }, record, pods));
    await until("all drivers' logs are kept", () => kept === sessions.length);
    expect((await heapAfterCollection()) - before).toBeLessThan(16 * DRIVER_LOG_BYTES);
    other.resolve(empty);
    expect((await Promise.all(sessions)).map(({ resultJson }) => resultJson)).toEqual(sessions.map(() => '{"qps":5}'));
  });

  it("leaves the only turn to other logs while one log fails", async () => {
    const asked: string[] = [];
    const readTail: LogReading["logs"]["readTail"] = (pod) => {
      asked.push(pod);
      if (asked.length === 1) return Promise.reject(new FaultError(away));
      return Promise.resolve({ bytes: Buffer.from('{"qps":4}\n'), omittedBytes: 0, broken: undefined });
    };
    const { from } = reading({ readTail });
    const { warnings, resultJson } = await collected({ ...from, turns: takeTurns(1) }, record, pods);
    expect(asked).toEqual(["bench-driver", "bench-client-0", "bench-server-0", "bench-driver"]);
    expect({ warnings, resultJson }).toEqual({ warnings: [], resultJson: '{"qps":4}' });
  });

  it("loses logs, with the reason, whose turn does not come before the time for all logs is over", async () => {
    const over = new AbortController();
    const turns = takeTurns(1);
    const busy = Promise.withResolvers<undefined>();
    const other = turns(() => busy.promise);
    const { from, kept } = reading();
    const collecting = collected({ ...from, turns, deadline: over.signal }, record, pods);
    over.abort();
    const { warnings } = await collecting;
    expect(kept).toEqual([]);
    expect(warnings.map(({ code }) => code)).toEqual(["RESULT_LOST", "LOGS_LOST", "LOGS_LOST", "LOGS_LOST"]);
    expect(warnings[1]?.message).toBe("bench-driver/main: the wait for a turn to read a log took longer than 60 s");
    busy.resolve(undefined);
    await other;
  });

  it("starts no read once the time for all logs is over", async () => {
    let tries = 0;
    const over = new AbortController();
    const readTail = () => {
      tries += 1;
      over.abort();
      return Promise.reject(new FaultError({ code: "unavailable", dependency: "kubernetes", retryAfterMs: 0 }));
    };
    const { from } = reading({ readTail });
    const { warnings } = await collected({ ...from, deadline: over.signal }, record, pods);
    expect(tries).toBe(1);
    expect(warnings.map(({ code }) => code)).toEqual(["RESULT_LOST", "LOGS_LOST", "LOGS_LOST", "LOGS_LOST"]);
  });
});

describe("makeTail", () => {
  async function* chunks(texts: readonly string[], end?: Error): AsyncIterable<Uint8Array> {
    for (const text of texts) yield await Promise.resolve(Buffer.from(text));
    if (end !== undefined) throw end;
  }
  const late = new DOMException("too late", "TimeoutError");

  it("keeps the last bytes and counts the others", async () => {
    const tail = await makeTail(chunks(["abc", "def", "ghi"]), 4);
    expect(tail).toMatchObject({ omittedBytes: 5, broken: undefined });
    expect(Buffer.from(tail.bytes).toString()).toBe("fghi");
  });

  it("returns the part that it has when the reading takes too long, and reports that", async () => {
    const tail = await makeTail(chunks(["abc", "def"], late), 4);
    expect(tail).toMatchObject({ omittedBytes: 2, broken: { code: "unavailable" } });
    expect(Buffer.from(tail.bytes).toString()).toBe("cdef");
  });

  it("fails if it has read nothing", async () => {
    await expect(makeTail(chunks([], late), 4)).rejects.toBe(late);
  });
});

import { throwFault, type Fault } from "@muster/faults";
import { describe, expect, it } from "vitest";
import { readLog, type LogDeps, type LogRequest, type ContainerRun } from "./read-log.ts";

const GOING_ON = new AbortController().signal;
const WAIT_MS = 4000;
const FIRST = { id: "first", pod: "train-worker-0" };
const SECOND = { id: "second", pod: "train-worker-0" };

type Life = { readonly run: Pick<ContainerRun, "id" | "pod">; text: string; isOver: boolean; fault?: Fault };

/** Scripts the runs of a member: time passes only while a call waits. */
function member(...lives: Life[]) {
  const state = { nowMs: 0, isFinished: false, lives, newest: lives.at(-1), isKept: true };
  const news: (() => void)[] = [];
  const pass = (ms: number): void => {
    state.nowMs += ms;
    news.shift()?.();
  };
  const bytesAt = (id: string, offset: number, limitBytes: number): Uint8Array => {
    const life = lives.find(({ run }) => run.id === id);
    if (life?.fault !== undefined) throwFault(life.fault);
    return Buffer.from(life?.text ?? "").subarray(offset, offset + limitBytes);
  };
  const runOf = ({ run, isOver }: Life): ContainerRun => ({ ...run, isOver });
  const deps: LogDeps = {
    now: () => state.nowMs,
    newest: () => state.newest && runOf(state.newest),
    kept: (id) => {
      const life = lives.find(({ run }) => run.id === id);
      return state.isKept && life !== undefined ? { ...runOf(life), isOver: true } : undefined;
    },
    isFinished: () => state.isFinished,
    changed: (ms) => {
      pass(ms);
      return Promise.resolve();
    },
    read: (run, { offset, limitBytes }) => Promise.resolve().then(() => bytesAt(run.id, offset, limitBytes)),
    follow: (run, { offset, limitBytes }, waitMs) =>
      Promise.resolve().then(() => {
        const over = (): boolean => lives.find((life) => life.run.id === run.id)?.isOver === true;
        for (const endMs = state.nowMs + waitMs; ;) {
          const bytes = bytesAt(run.id, offset, limitBytes);
          if (bytes.length > 0 || over() || state.nowMs >= endMs)
            return { bytes, isOver: bytes.length === 0 && over() };
          pass(Math.min(1000, endMs - state.nowMs));
        }
      }),
    refuseAbsent: () => throwFault({ code: "not_found", kind: "log", id: "train/worker-0" }),
  };
  const read = async (request: Partial<LogRequest> = {}) => {
    const { bytes, ...rest } = await readLog(
      deps,
      { offset: 0, limitBytes: 0, waitMs: WAIT_MS, run: "", ...request },
      GOING_ON,
    );
    return { ...rest, text: Buffer.from(bytes).toString() };
  };
  return { state, lives, news, read };
}

function life(run: Life["run"], text: string, isOver = false): Life {
  return { run, text, isOver };
}

describe("a followed log", () => {
  it("answers as soon as the log reaches beyond the offset, and names the run", async () => {
    const { read, news, lives } = member(life(FIRST, "one "));
    expect(await read()).toEqual({ text: "one ", nextOffset: 4, complete: false, run: "first", pod: FIRST.pod });
    news.push(() => (lives[0]!.text += "two"));
    expect(await read({ offset: 4, run: "first" })).toMatchObject({ text: "two", nextOffset: 7 });
  });

  it("answers with nothing after the wait, and with at most the requested bytes", async () => {
    const { read, state } = member(life(FIRST, "abcdef"));
    expect(await read({ limitBytes: 4 })).toMatchObject({ text: "abcd", nextOffset: 4 });
    expect(await read({ offset: 6, run: "first" })).toMatchObject({ text: "", nextOffset: 6, complete: false });
    expect(state.nowMs).toBe(WAIT_MS);
    await read({ offset: 6, run: "first", waitMs: 1e9 });
    expect(state.nowMs).toBe(WAIT_MS + 30_000);
  });

  it("waits for a member that has not begun, and begins with it", async () => {
    const { read, state, news } = member();
    expect(await read()).toMatchObject({ text: "", complete: false, run: "" });
    news.push(() => {
      state.lives.push(life(FIRST, "here"));
      state.newest = state.lives[0];
    });
    expect(await read()).toMatchObject({ text: "here", run: "first" });
  });

  it("continues with the next run after an ended one, from its beginning", async () => {
    const { read, state, news } = member(life(FIRST, "failed", true));
    expect(await read({ offset: 6, run: "first" })).toMatchObject({ text: "", complete: false, run: "first" });
    news.push(
      () => (state.newest = undefined),
      () => {
        state.lives.push(life(SECOND, "again"));
        state.newest = state.lives[1];
      },
    );
    expect(await read({ offset: 6, run: "first" })).toMatchObject({ text: "again", nextOffset: 5, run: "second" });
  });

  it("returns the rest of a run whose pod is gone before the next run", async () => {
    const { read } = member(life(FIRST, "first words", true), life(SECOND, "again"));
    expect(await read({ offset: 6, run: "first" })).toMatchObject({ text: "words", nextOffset: 11, run: "first" });
    expect(await read({ offset: 11, run: "first" })).toMatchObject({ text: "again", nextOffset: 5, run: "second" });
  });

  it("continues with the newest run if the rest of the previous one was not kept", async () => {
    const { read, state } = member(life(FIRST, "first words", true), life(SECOND, "again"));
    state.isKept = false;
    expect(await read({ offset: 6, run: "first" })).toMatchObject({ text: "again", run: "second" });
  });

  it("states the position of the next run even before its first output", async () => {
    const { read } = member(life(FIRST, "a", true), life(SECOND, ""));
    expect(await read({ offset: 1, run: "first" })).toMatchObject({ text: "", nextOffset: 0, run: "second" });
  });

  it("ends with the job, not with a run", async () => {
    const { read, state, news } = member(life(FIRST, "all", true));
    expect(await read({ offset: 3, run: "first" })).toMatchObject({ complete: false });
    news.push(() => (state.isFinished = true));
    expect(await read({ offset: 3, run: "first" })).toMatchObject({ text: "", complete: true });
    expect(await read()).toMatchObject({ text: "all", complete: false });
  });

  it("ends when the job is over and its pods are gone", async () => {
    const { read, state } = member(life(FIRST, "all", true));
    Object.assign(state, { isFinished: true, newest: undefined });
    expect(await read({ run: "first", offset: 1 })).toMatchObject({ text: "ll", complete: false });
    expect(await read({ run: "first", offset: 3 })).toMatchObject({ text: "", complete: true });
    state.isKept = false;
    expect(await read({ run: "first", offset: 1 })).toMatchObject({ text: "", complete: true });
  });

  it("follows a pod that outlives the job until it is silent for a whole wait", async () => {
    const { read, state, news, lives } = member(life(FIRST, "a"));
    news.push(() => (state.isFinished = true));
    expect(await read({ run: "first", offset: 1 })).toMatchObject({ complete: false });
    news.push(() => (lives[0]!.text = "ab"));
    expect(await read({ run: "first", offset: 1 })).toMatchObject({ text: "b", complete: false });
    expect(await read({ run: "first", offset: 2 })).toMatchObject({ text: "", complete: true });
  });

  it.each<[string, Fault]>([
    ["a container that is only starting", { code: "invalid_request", field: "request", reason: "is waiting to start" }],
    ["a pod that is gone", { code: "not_found", kind: "pods", id: FIRST.pod }],
  ])("waits for a log after the fault of %s", async (_title, fault) => {
    const { read, news, lives } = member({ ...life(FIRST, "here"), fault });
    news.push(() => delete lives[0]!.fault);
    expect(await read()).toMatchObject({ text: "here" });
  });

  it("reports that the API server does not answer", async () => {
    const fault = { code: "unavailable", dependency: "kubernetes", retryAfterMs: 1 } as const;
    const { read } = member({ ...life(FIRST, "here"), fault });
    await expect(read()).rejects.toMatchObject({ fault });
  });
});

describe("a log that is not followed", () => {
  const now = { waitMs: 0 };

  it("is the output of the newest run so far", async () => {
    const { read, state } = member(life(FIRST, "old", true), life(SECOND, "new"));
    expect(await read(now)).toMatchObject({ text: "new", nextOffset: 3, complete: false, run: "second" });
    expect(await read({ ...now, run: "second", offset: 3 })).toMatchObject({ text: "", complete: false });
    expect(state.nowMs).toBe(0);
  });

  it("is complete once an ended run is read to its end", async () => {
    const { read } = member(life(FIRST, "all", true));
    expect(await read(now)).toMatchObject({ text: "all", complete: false });
    expect(await read({ ...now, run: "first", offset: 3 })).toMatchObject({ text: "", complete: true });
  });

  it("does not exist before the member has begun, nor for an invalid offset", async () => {
    const { read } = member();
    await expect(read(now)).rejects.toMatchObject({ fault: { code: "not_found", kind: "log" } });
    await expect(read({ ...now, offset: 0.5 })).rejects.toMatchObject({ fault: { field: "offset" } });
  });
});

import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { buckets } from "@muster/proto";
import { startTestNats, until, type TestNats } from "@muster/testkit";
import type { NatsConnection } from "@nats-io/nats-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runWhileLeader, openBucket, type Leadership } from "../src/index.ts";
import { connectTo, makeFreshName, makeJsonCodec } from "./connected.ts";
import { link } from "./link.ts";

/** Longer than a pause of a busy machine. */
const TTL_MS = 5000;

let server: TestNats;
let connection: NatsConnection;

beforeAll(async () => {
  server = await startTestNats();
  connection = await connectTo(server);
});
afterAll(async () => {
  await connection.close();
  await server[Symbol.asyncDispose]();
});

type Contender = {
  readonly states: string[];
  readonly tokens: number[];
  leading(): Leadership | undefined;
  stop(): Promise<void>;
  readonly ended: Promise<void>;
};

/** Starts a participant that leads for as long as possible. */
function contender(nats: NatsConnection, lock: string, holder: string, ttlMs: number): Contender {
  const states: string[] = [];
  const tokens: number[] = [];
  const stop = new AbortController();
  let leading: Leadership | undefined;
  const ended = runWhileLeader(
    nats,
    { lock, holder, ttlMs, signal: stop.signal, onChange: (state) => states.push(state) },
    async (leadership) => {
      leading = leadership;
      tokens.push(leadership.token);
      await aborted(leadership.signal);
      leading = undefined;
    },
  );
  return {
    states,
    tokens,
    leading: () => leading,
    stop: async () => {
      stop.abort();
      await ended;
    },
    ended,
  };
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve());
  });
}

describe("a lock with several contenders", () => {
  it("passes to the next contender immediately when the leader stops, each with a larger token, and never to two", async () => {
    const lock = makeFreshName("lock");
    // Long enough that no lock can have expired.
    const all = ["a", "b", "c", "d"].map((holder) => contender(connection, lock, holder, 600_000));
    const tokens: number[] = [];
    for (let left = all.length; left > 0; left -= 1) {
      const leader = await until("one leads", () => all.find((one) => one.leading() !== undefined));
      expect(all.filter((one) => one.leading() !== undefined)).toHaveLength(1);
      tokens.push(...leader.tokens);
      await leader.stop();
      expect(leader.states.at(-1)).toBe("leading");
    }
    expect(tokens).toHaveLength(4);
    expect(tokens).toEqual([...new Set(tokens)].sort((one, other) => one - other));
  });

  it("stays with a leader that renews it for many times its time to live", async () => {
    const lock = makeFreshName("lock");
    const leader = contender(connection, lock, "leader", TTL_MS);
    const { token } = await until("it leads", () => leader.leading());
    const other = contender(connection, lock, "other", TTL_MS);
    const bucket = await openBucket(connection, { name: buckets.locks, codec: makeJsonCodec<object>() });
    await until("it was renewed many times", async () => ((await bucket.get(lock))?.revision ?? 0) > token + 8);
    expect(other.tokens).toEqual([]);
    expect(leader.tokens).toHaveLength(1);
    await Promise.all([leader.stop(), other.stop()]);
  });

  it("is taken from a silent leader, which has stopped by then and competes again when it is back", async () => {
    await using wire = await link(server);
    await using far = await connectTo(wire.server);
    const lock = makeFreshName("lock");
    const old = contender(far, lock, "old", TTL_MS);
    const leadership = await until("it leads", () => old.leading());
    const next = contender(connection, lock, "next", TTL_MS);
    await until("the other waits", () => next.states.includes("waiting"));
    wire.cut();
    await until("the next leads", () => {
      if (next.leading() === undefined) return false;
      expect(leadership.signal.aborted).toBe(true);
      return true;
    });
    await until("the old one waits again", () => old.states.length === 4);
    expect(old.states).toEqual(["waiting", "leading", "lost", "waiting"]);
    expect(next.tokens[0]).toBeGreaterThan(leadership.token);
    wire.mend();
    await next.stop();
    await until("the old one leads again", () => old.leading());
    expect(old.tokens[1]).toBeGreaterThan(next.tokens[0] ?? 0);
    await old.stop();
  });

  it("is lost immediately when it is deleted", async () => {
    const lock = makeFreshName("lock");
    const leader = contender(connection, lock, "leader", 600_000);
    const leadership = await until("it leads", () => leader.leading());
    const bucket = await openBucket(connection, { name: buckets.locks, codec: makeJsonCodec<object>() });
    const entry = await bucket.get(lock);
    await bucket.delete(lock, entry?.revision ?? 0);
    await until("it has lost it", () => leadership.signal.aborted);
    await until("it leads again", () => leader.tokens.length === 2);
    expect(leader.tokens[1]).toBeGreaterThan(leadership.token);
    await leader.stop();
  });

  it("is taken over from an unreadable record after the own time to live", async () => {
    const lock = makeFreshName("lock");
    const bucket = await openBucket(connection, { name: buckets.locks, codec: makeJsonCodec<unknown>() });
    const revision = await bucket.create(lock, "who knows");
    const leader = contender(connection, lock, "leader", 200);
    await until("it leads", () => leader.leading());
    expect(leader.tokens[0]).toBeGreaterThan(revision);
    await leader.stop();
  });
});

describe("work", () => {
  it("that throws ends the lead with its error and releases the lock", async () => {
    const lock = makeFreshName("lock");
    const signal = new AbortController().signal;
    const failing = runWhileLeader(connection, { lock, holder: "a", ttlMs: 600_000, signal }, () =>
      Promise.reject(new Error("broken")),
    );
    await expect(failing).rejects.toThrow("broken");
    const next = contender(connection, lock, "b", 600_000);
    await until("the next leads", () => next.leading());
    await next.stop();
  });

  it("that returns early competes for the lock again", async () => {
    const lock = makeFreshName("lock");
    const stop = new AbortController();
    const tokens: number[] = [];
    await runWhileLeader(connection, { lock, holder: "a", ttlMs: 600_000, signal: stop.signal }, ({ token }) => {
      tokens.push(token);
      if (tokens.length === 3) stop.abort();
      return Promise.resolve();
    });
    expect(tokens).toEqual([...new Set(tokens)].sort((one, other) => one - other));
    expect(tokens).toHaveLength(3);
  });
});

describe("a server that dies", () => {
  it("ends the lead in time, and allows no leader until it is back", async () => {
    await using mine = await startTestNats();
    await using first = await connectTo(mine);
    await using second = await connectTo(mine);
    const both = [contender(first, "lock", "a", TTL_MS), contender(second, "lock", "b", TTL_MS)];
    const leader = await until("one leads", () => both.find((one) => one.leading() !== undefined));
    await mine.kill();
    await until("it has lost the lead", () => leader.states.includes("lost"));
    expect(both.map((one) => one.leading())).toEqual([undefined, undefined]);
    await mine.start();
    await until("one leads again", () => both.some((one) => one.leading() !== undefined));
    const [before, ...after] = both.flatMap((one) => one.tokens).sort((one, other) => one - other);
    expect(after.length).toBeGreaterThan(0);
    expect(before).toBe(leader.tokens[0]);
    await Promise.all(both.map((one) => one.stop()));
  });
});

describe("a leader that is stopped by the system", () => {
  it("learns that it has lost the lead when it resumes, while another process leads", async () => {
    const child = fork(join(import.meta.dirname, "leader.process.ts"), [
      server.url,
      server.token,
      "child",
      String(TTL_MS),
    ]);
    const events: { readonly state?: string; readonly token?: number }[] = [];
    child.on("message", (message) => events.push(message as { state?: string; token?: number }));
    try {
      const { token = 0 } = await until("the child leads", () => events.find((one) => one.token !== undefined));
      const next = contender(connection, "process", "next", TTL_MS);
      await until("the other waits", () => next.states.includes("waiting"));
      child.kill("SIGSTOP");
      await until("the other leads", () => next.leading());
      expect(events.some(({ state }) => state === "lost")).toBe(false);
      child.kill("SIGCONT");
      await until("the child knows", () => events.some(({ state }) => state === "lost"));
      expect(next.tokens[0]).toBeGreaterThan(token);
      expect(next.leading()).toBeDefined();
      await next.stop();
    } finally {
      child.kill("SIGKILL");
      await once(child, "exit");
    }
  });
});

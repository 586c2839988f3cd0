import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { findFault } from "@muster/faults";
import { startTestNats, until, type TestNats } from "@muster/testkit";
import type { NatsConnection } from "@nats-io/nats-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { openBucket, withSessions, type Bucket, type Session } from "../src/index.ts";
import { jsonText } from "../src/codec.ts";
import { connectTo, makeFreshName } from "./connected.ts";
import { link } from "./link.ts";
import { takeFree, type SessionEvent } from "./take-free.ts";

/** Longer than a pause of a busy machine. */
const TTL_MS = 5000;
/** Allows for slow process starts on a busy machine. */
const SLOW = { timeoutMs: 90_000 };
/** Long enough that no session can have expired. */
const LONG_MS = 600_000;

let server: TestNats;
let connection: NatsConnection;
const children = new Set<ReturnType<typeof fork>>();

beforeAll(async () => {
  server = await startTestNats();
  connection = await connectTo(server);
});
afterEach(async () => {
  for (const child of children) {
    child.kill("SIGKILL");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  }
  children.clear();
});
afterAll(async () => {
  await connection.close();
  await server[Symbol.asyncDispose]();
});

type Participant = {
  readonly states: string[];
  readonly sessions: Session[];
  readonly took: SessionEvent[];
  live(): Promise<Session>;
  stop(): Promise<void>;
  readonly ended: Promise<void>;
};

/** A participant in this process that has sessions for as long as possible, and takes the free ones of these locks. */
function participant(
  nats: NatsConnection,
  bucket: string,
  holder: string,
  ttlMs = LONG_MS,
  keys: readonly string[] = [],
): Participant {
  const stop = new AbortController();
  const states: string[] = [];
  const sessions: Session[] = [];
  const took: SessionEvent[] = [];
  const ended = withSessions(
    nats,
    { bucket, holder, ttlMs, about: { of: holder }, signal: stop.signal, onChange: (state) => states.push(state) },
    async (session) => {
      sessions.push(session);
      await takeFree(session, keys, (event) => took.push(event));
      await aborted(session.signal);
    },
  );
  return {
    states,
    sessions,
    took,
    live: () =>
      until(`${holder} has a session`, () => {
        const session = sessions.at(-1);
        return session?.isHeld() === true ? session : undefined;
      }),
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

function process(bucket: string, holder: string, keys: readonly string[], ttlMs = TTL_MS) {
  const file = join(import.meta.dirname, "sessions.process.ts");
  const child = fork(file, [server.url, server.token, bucket, holder, String(ttlMs), keys.join(",")]);
  children.add(child);
  const events: SessionEvent[] = [];
  child.on("message", (message) => events.push(message as SessionEvent));
  return {
    events,
    session: () =>
      until(`${holder} has a session`, () => events.find((one) => one.session !== undefined)?.session, SLOW),
    took: () => events.filter(({ took }) => took !== undefined),
    order: (text: string) => child.send(text),
    answer: (text: string) =>
      until(`${holder} answers ${text}`, () => events.find(({ answerTo }) => answerTo === text)),
    signal: (name: NodeJS.Signals) => child.kill(name),
  };
}

function plain(bucket: string): Promise<Bucket<unknown>> {
  return openBucket(connection, { name: bucket, codec: jsonText });
}

/** Records every later change of the bucket as text. */
async function recorded(bucket: string): Promise<{ readonly changes: string[]; stop(): Promise<void> }> {
  const changes: string[] = [];
  const stop = new AbortController();
  const synced = Promise.withResolvers<undefined>();
  const follow = async (): Promise<void> => {
    let since = false;
    for await (const change of (await plain(bucket)).watch({ signal: stop.signal })) {
      if (change.kind === "synced") {
        since = true;
        synced.resolve(undefined);
      } else if (since) changes.push(`${change.kind} ${change.kind === "put" ? change.entry.key : change.key}`);
    }
  };
  const following = follow();
  await synced.promise;
  return {
    changes,
    stop: async () => {
      stop.abort();
      await following;
    },
  };
}

describe("locks of sessions", () => {
  it("belong to one session, and each later holder has a larger token", async () => {
    const bucket = makeFreshName("sessions");
    const [one, two] = [participant(connection, bucket, "one"), participant(connection, bucket, "two")];
    const [a, b] = [await one.live(), await two.live()];
    let changes = 0;
    b.onChange(() => (changes += 1));
    const first = await a.lock("set.1");
    expect(await a.lock("set.1")).toBe(first);
    expect(await b.lock("set.1")).toBeUndefined();
    await until("two sees both, and who has what", () => {
      const { sessions, locks } = b.view();
      expect([...sessions.values()].map(({ holder, about }) => [holder, about]).sort()).toEqual([
        ["one", { of: "one" }],
        ["two", { of: "two" }],
      ]);
      expect(locks.get("set.1")).toEqual({ key: "set.1", session: a.id, token: first?.token, free: false });
      return true;
    });
    const before = changes;
    if (first !== undefined) await a.unlock(first);
    await until("two is reported", () => changes > before && !b.view().locks.has("set.1"));
    const second = await b.lock("set.1");
    expect(second?.token).toBeGreaterThan(first?.token ?? 0);
    // A previous holder cannot release the lock.
    if (first !== undefined) await a.unlock(first);
    expect(await a.lock("set.1")).toBeUndefined();
    await Promise.all([one.stop(), two.stop()]);
  });

  it("are free immediately when their session stops, without any remaining record", async () => {
    const bucket = makeFreshName("sessions");
    const [one, two] = [participant(connection, bucket, "one"), participant(connection, bucket, "two")];
    const [a, b] = [await one.live(), await two.live()];
    const keys = Array.from({ length: 100 }, (_, at) => `set.${at}`);
    const locks = await Promise.all(keys.map((key) => a.lock(key)));
    expect(locks).not.toContain(undefined);
    await one.stop();
    expect(one.states).toEqual(["waiting", "live"]);
    expect(a.isHeld()).toBe(false);
    await until("two sees only itself", () => b.view().sessions.size === 1 && b.view().locks.size === 0);
    expect(await b.lock("set.7")).toBeDefined();
    await two.stop();
    expect(await (await plain(bucket)).list()).toEqual([]);
  });

  it("cost no writes while they are held: one session renews a thousand", async () => {
    const bucket = makeFreshName("sessions");
    const one = participant(connection, bucket, "one", 5 * TTL_MS);
    const session = await one.live();
    const keys = Array.from({ length: 1000 }, (_, at) => `set.${at}`);
    expect(await Promise.all(keys.map((key) => session.lock(key)))).not.toContain(undefined);
    const { changes, stop } = await recorded(bucket);
    await until("the session was renewed several times", () => changes.length >= 3);
    expect(new Set(changes)).toEqual(new Set([`put session.${session.id}`]));
    expect(session.isHeld()).toBe(true);
    await stop();
    await one.stop();
  });

  it("are known to their writer, also if the answer was lost", async () => {
    await using wire = await link(server);
    await using far = await connectTo(wire.server);
    const bucket = makeFreshName("sessions");
    const one = participant(far, bucket, "one", 20_000);
    const session = await one.live();
    const sent = wire.freezeAfter("lock.answerless");
    const taking = session.lock("answerless");
    await sent;
    const opened = await plain(bucket);
    await until("it is written", () => opened.get("lock.answerless"));
    wire.cut();
    wire.mend();
    // The record is written again if the watch has shown the first one before the retry.
    const taken = await taking;
    expect(taken).toEqual({ key: "answerless", token: (await opened.get("lock.answerless"))?.revision });
    await one.stop();
  });

  it("have keys that can be keys of a bucket, and refuse others", async () => {
    const one = participant(connection, makeFreshName("sessions"), "one");
    const session = await one.live();
    expect(findFault(await session.lock("a b").catch((error: unknown) => error))?.code).toBe("invalid_request");
    await one.stop();
  });
});

describe("a session", () => {
  it(
    "that dies loses all its locks to the others, who have larger tokens, and nothing else changes hands",
    { timeout: 180_000 },
    async () => {
      const bucket = makeFreshName("sessions");
      const keys = Array.from({ length: 20 }, (_, at) => `set-${at}`);
      const dying = process(bucket, "dying", keys.slice(0, 10), 3 * TTL_MS);
      await until("it has what it wants", () => dying.took().length === 10, SLOW);
      const session = await dying.session();
      const third = process(bucket, "third", keys, 3 * TTL_MS);
      await third.session();
      const four = ["one", "two", "four", "five"].map((holder) =>
        participant(connection, bucket, holder, 3 * TTL_MS, keys),
      );
      const taken = (): SessionEvent[] => [...third.took(), ...four.flatMap(({ took }) => took)];
      await until("every lock is taken", () => taken().length === 10, SLOW);
      const { changes, stop } = await recorded(bucket);
      dying.signal("SIGKILL");
      await until("its locks are taken over", () => taken().length === keys.length);
      for (const { took, token = 0 } of dying.took())
        expect(taken().find((one) => one.took === took)?.token).toBeGreaterThan(token);
      await stop();
      const live = [await third.session(), ...four.flatMap(({ sessions }) => sessions.map(({ id }) => id))];
      const renewals = new Set([session, ...live].map((id) => `put session.${id}`));
      const [first, ...later] = changes.filter((change) => !renewals.has(change));
      expect(first).toBe(`delete session.${session}`);
      expect(later.sort()).toEqual(
        dying
          .took()
          .map(({ took }) => `put lock.${took}`)
          .sort(),
      );
      await Promise.all(four.map((one) => one.stop()));
    },
  );

  it(
    "that is frozen past its time and resumes knows that it is over, and changes nothing any more",
    { timeout: 180_000 },
    async () => {
      const bucket = makeFreshName("sessions");
      const old = process(bucket, "old", ["set"]);
      await until("the old one has the lock", () => old.took().length === 1, SLOW);
      const next = process(bucket, "next", ["set"]);
      const session = await next.session();
      old.signal("SIGSTOP");
      // The text stays in the pipe, and the process reads it first when it resumes.
      for (const text of ["lock other", "unlock set"]) old.order(text);
      await until("the next one has the lock", () => next.took().length === 1);
      expect(next.took()[0]?.token).toBeGreaterThan(old.took()[0]?.token ?? 0);
      const written: string[] = [];
      const subscription = connection.subscribe(`$KV.${bucket}.lock.>`, {
        callback: (_error, message) => void written.push(message.subject),
      });
      await connection.flush();
      old.signal("SIGCONT");
      expect(await old.answer("lock other")).toMatchObject({ result: "refused", isHeld: false });
      expect(await old.answer("unlock set")).toMatchObject({ isHeld: false });
      await until("it has lost its session", () => old.events.some(({ state }) => state === "lost"));
      await until("it has another", () => old.events.filter((one) => one.session !== undefined).length >= 2, SLOW);
      const opened = await plain(bucket);
      expect((await opened.get("lock.set"))?.value).toMatchObject({ session });
      expect(await opened.get("lock.other")).toBeUndefined();
      // The process did not even attempt a write.
      expect(written).toEqual([]);
      subscription.unsubscribe();
    },
  );

  it("is lost before the timer reports it", async () => {
    let nowMs = 0;
    const stop = new AbortController();
    const held: boolean[] = [];
    const { bucket, ...rest } = { bucket: makeFreshName("sessions"), holder: "one", ttlMs: 60_000, about: {} };
    await withSessions(connection, { bucket, ...rest, signal: stop.signal, now: () => nowMs }, async (session) => {
      const lock = await session.lock("set");
      held.push(session.isHeld());
      nowMs = 60_000;
      expect(session.signal.aborted).toBe(false);
      expect(await session.lock("another")).toBeUndefined();
      if (lock !== undefined) await session.unlock(lock);
      held.push(session.isHeld());
      expect(session.signal.aborted).toBe(true);
      stop.abort();
    });
    expect(held).toEqual([true, false]);
    const opened = await plain(bucket);
    expect(await opened.get("lock.set")).toBeDefined();
    expect(await opened.get("lock.another")).toBeUndefined();
  });

  it("is lost immediately when its key is deleted, and followed by another", async () => {
    const bucket = makeFreshName("sessions");
    const one = participant(connection, bucket, "one");
    const session = await one.live();
    const before = await session.lock("set");
    const opened = await plain(bucket);
    const entry = await opened.get(`session.${session.id}`);
    await opened.delete(`session.${session.id}`, entry?.revision ?? 0);
    await until("it is lost", () => session.signal.aborted);
    const next = await one.live();
    expect(next.id).not.toBe(session.id);
    expect((await next.lock("set"))?.token).toBeGreaterThan(before?.token ?? 0);
    expect(one.states).toEqual(["waiting", "live", "lost", "waiting", "live"]);
    await one.stop();
  });

  it("survives an outage shorter than its time to live, and is lost in time in a longer one", async () => {
    await using mine = await startTestNats();
    await using near = await connectTo(mine);
    const [one, two] = [participant(near, "locks", "one", LONG_MS), participant(near, "locks", "two", TTL_MS)];
    const [a, b] = [await one.live(), await two.live()];
    const [kept, lost] = [await a.lock("kept"), await b.lock("lost")];
    await mine.kill();
    await until("the short one is lost", () => b.signal.aborted);
    expect(b.isHeld()).toBe(false);
    await mine.start();
    const again = await two.live();
    expect(again.id).not.toBe(b.id);
    expect(a.isHeld()).toBe(true);
    expect(await again.lock("kept")).toBeUndefined();
    expect(await a.lock("kept")).toBe(kept);
    const taken = await until("the lost lock is taken", () => again.lock("lost"));
    expect(taken.token).toBeGreaterThan(lost?.token ?? 0);
    await Promise.all([one.stop(), two.stop()]);
  });

  it("is unaffected by unreadable records, which hold nothing and expire after its own time to live", async () => {
    const bucket = makeFreshName("sessions");
    const one = participant(connection, bucket, "one", TTL_MS);
    const session = await one.live();
    const garbage = new TextEncoder().encode("}");
    for (const key of ["session.zombie", "session.a.b", "session.a:b", "lock.set", "other"])
      await connection.request(`$KV.${bucket}.${key}`, garbage);
    await until("it is seen", () => session.view().sessions.get("zombie"));
    expect(session.view().sessions.get("zombie")?.about).toBeUndefined();
    await until("it sees the lock", () => session.view().locks.get("set")?.free);
    expect(await session.lock("set")).toBeDefined();
    await until("the zombie is deleted", () => !session.view().sessions.has("zombie"));
    expect(session.isHeld()).toBe(true);
    await one.stop();
  });

  it("with an oversized record is refused", async () => {
    const options = { bucket: makeFreshName("sessions"), holder: "one", ttlMs: TTL_MS };
    const { signal } = new AbortController();
    const about = { text: "x".repeat(5000) };
    const refused = withSessions(connection, { ...options, about, signal }, () => Promise.resolve());
    expect(findFault(await refused.catch((error: unknown) => error))).toMatchObject({
      code: "limit_exceeded",
      limit: 4096,
    });
  });

  it("ends with the error of its work, and leaves no record", async () => {
    const bucket = makeFreshName("sessions");
    const { signal } = new AbortController();
    const failing = withSessions(
      connection,
      { bucket, holder: "one", ttlMs: LONG_MS, about: {}, signal },
      async (one) => {
        await one.lock("set");
        throw new Error("broken");
      },
    );
    await expect(failing).rejects.toThrow("broken");
    expect(await (await plain(bucket)).list()).toEqual([]);
  });

  it("ends as unavailable when its connection is closed for good", async () => {
    const mine = await connectTo(server);
    const one = participant(mine, makeFreshName("sessions"), "one", TTL_MS);
    const session = await one.live();
    await mine.close();
    expect(findFault(await one.ended.catch((error: unknown) => error))?.code).toBe("unavailable");
    expect(session.isHeld()).toBe(false);
  });
});

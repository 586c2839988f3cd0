import { FaultError } from "@muster/faults";
import fc from "fast-check";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { Bucket, Change } from "../src/index.ts";
import { runSessions, type Session } from "../src/sessions.ts";

const TTL_MS = 300;
const RUN_MS = 6000;
const LOCKS = ["x", "y", "z"];

type Stored = { readonly key: string; readonly value: unknown; readonly revision: number };

/** A bucket as the server stores it: the last write of each key, checked against the revision that it replaces. */
class Store {
  readonly last = new Map<string, Stored>();
  readonly followers = new Set<() => void>();
  revision = 0;

  write(key: string, value: unknown, isExpected: (found: Stored | undefined) => boolean): number {
    const found = this.last.get(key);
    if (!isExpected(found))
      throw new FaultError({ code: "conflict", id: key, expectedRevision: 0, actualRevision: found?.revision ?? 0 });
    this.revision += 1;
    this.last.set(key, { key, value, revision: this.revision });
    for (const follower of this.followers) follower();
    return this.revision;
  }
}

/** The connection of one process to the bucket: every message takes any time, and answers are lost. */
class Wire {
  cutUntilMs = 0;
  readonly store: Store;
  readonly random: () => number;

  constructor(store: Store, random: () => number) {
    this.store = store;
    this.random = random;
  }

  bucket(): Bucket<unknown> {
    const { store } = this;
    const replace = (key: string, value: unknown, revision: number): number =>
      store.write(key, value, (found) => found?.revision === revision);
    return {
      name: "modelled",
      get: (key) =>
        this.ask(() => {
          const found = store.last.get(key);
          return found?.value === undefined ? undefined : { key, value: found.value, revision: found.revision };
        }),
      create: (key, value) => this.ask(() => store.write(key, value, (found) => found?.value === undefined)),
      update: (key, value, revision) => this.ask(() => replace(key, value, revision)),
      delete: async (key, revision) => {
        await this.ask(() => replace(key, undefined, revision));
      },
      modify: () => Promise.reject(new Error("not needed")),
      list: () => Promise.reject(new Error("not needed")),
      watch: ({ signal }) => this.watch(signal),
    };
  }

  /** Delays most requests briefly; some arrive so late that their session may have ended. */
  private async ask<Reply>(request: () => Reply): Promise<Reply> {
    await delay(this.random() < 0.05 ? this.random() * 4 * TTL_MS : this.random() * 20);
    if (performance.now() < this.cutUntilMs) return this.silence();
    const reply = request();
    await delay(this.random() * 20);
    return performance.now() < this.cutUntilMs || this.random() < 0.05 ? this.silence() : reply;
  }

  private async silence(): Promise<never> {
    await delay(TTL_MS / 3);
    throw new FaultError({ code: "unavailable", dependency: "nats", retryAfterMs: 0 });
  }

  private async *watch(signal: AbortSignal): AsyncGenerator<Change<unknown>, undefined> {
    let seen = 0;
    let synced = false;
    while (!signal.aborted) {
      // A write that was replaced before it was read is not reported.
      const news = [...this.store.last.values()].filter(({ revision }) => revision > seen);
      const [next] = news.sort((a, b) => a.revision - b.revision);
      if (next === undefined && !synced) yield { kind: "synced" };
      if (next === undefined) synced = true;
      if (next === undefined || performance.now() < this.cutUntilMs) {
        await this.woken(signal);
        continue;
      }
      seen = next.revision;
      const { key, revision } = next;
      if (next.value === undefined) yield { kind: "delete", key, revision };
      else yield { kind: "put", entry: next };
      if (this.random() < 0.1) await delay(this.random() * TTL_MS);
    }
  }

  private woken(signal: AbortSignal): Promise<void> {
    const { followers } = this.store;
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        followers.delete(done);
        signal.removeEventListener("abort", done);
        resolve();
      };
      const timer = setTimeout(done, 50);
      followers.add(done);
      signal.addEventListener("abort", done);
    });
  }
}

/** Records which session took which lock, and whether the session believes that it holds the lock. */
class Witness {
  readonly grants: { readonly lock: string; readonly token: number; readonly by: Session; left: boolean }[] = [];

  granted(by: Session, lock: string, token: number): void {
    for (const grant of this.grants) {
      if (grant.lock !== lock) continue;
      expect(grant.by.isHeld() && !grant.left, "another session has it").toBe(false);
      expect(token).toBeGreaterThan(grant.token);
    }
    this.grants.push({ lock, token, by, left: false });
  }

  left(by: Session, token: number): void {
    for (const grant of this.grants) if (grant.by === by && grant.token === token) grant.left = true;
  }
}

/** Takes free locks, and releases some of them. */
async function work(session: Session, witness: Witness, random: () => number): Promise<void> {
  const ours = new Map<string, number>();
  while (!session.signal.aborted) {
    for (const key of LOCKS) {
      const token = ours.get(key);
      if (token === undefined) {
        const lock = await session.lock(key);
        if (lock === undefined || !session.isHeld()) continue;
        witness.granted(session, key, lock.token);
        ours.set(key, lock.token);
      } else if (random() < 0.2) {
        ours.delete(key);
        witness.left(session, token);
        await session.unlock({ key, token });
      }
    }
    await delay(random() * TTL_MS);
  }
}

function delay(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** A small generator, so that one seed determines the whole run. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
});
afterEach(() => {
  vi.useRealTimers();
});

it("never gives two sessions a lock, and each later holder a larger token, whatever fails", async () => {
  let handedOver = 0;
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 2 ** 31 }), async (seed) => {
      const random = randomFrom(seed);
      const store = new Store();
      const witness = new Witness();
      const stop = new AbortController();
      const wires = Array.from({ length: 3 }, () => new Wire(store, random));
      const failures: unknown[] = [];
      const running = wires.map((wire, at) =>
        runSessions(
          wire.bucket(),
          { bucket: "modelled", holder: `p${at}`, ttlMs: TTL_MS, about: {}, signal: stop.signal },
          (session) => work(session, witness, random),
        ).catch((error: unknown) => failures.push(error)),
      );
      for (let spentMs = 0; spentMs < RUN_MS; spentMs += TTL_MS) {
        await vi.advanceTimersByTimeAsync(TTL_MS);
        const wire = wires[Math.floor(random() * wires.length)];
        if (wire !== undefined && random() < 0.4) wire.cutUntilMs = performance.now() + random() * 3 * TTL_MS;
      }
      stop.abort();
      for (const wire of wires) wire.cutUntilMs = 0;
      await vi.advanceTimersByTimeAsync(20 * TTL_MS);
      await Promise.all(running);
      expect(failures).toEqual([]);
      handedOver += witness.grants.filter(({ by }, at) => at > 0 && witness.grants[at - 1]?.by !== by).length;
    }),
    { numRuns: 30 },
  );
  expect(handedOver).toBeGreaterThan(30);
});

it("pauses longer after each short-lived session, up to a limit, and resets that after a long one", async () => {
  const wire = new Wire(new Store(), () => 0.5);
  const stop = new AbortController();
  const livesMs = [...Array.from({ length: 10 }, () => 0), 61_000, 0];
  const pausesMs: number[] = [];
  let endedAtMs: number | undefined;
  const running = runSessions(
    wire.bucket(),
    { bucket: "modelled", holder: "one", ttlMs: TTL_MS, about: {}, signal: stop.signal },
    async () => {
      if (endedAtMs !== undefined) pausesMs.push(performance.now() - endedAtMs);
      await delay(livesMs.shift() ?? 0);
      endedAtMs = performance.now();
      if (livesMs.length === 0) stop.abort();
    },
  );
  await vi.advanceTimersByTimeAsync(400_000);
  await running;
  const full = [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000, 30_000, 500];
  expect(pausesMs).toHaveLength(full.length);
  for (const [at, ms] of full.entries()) {
    expect(pausesMs[at]).toBeGreaterThanOrEqual(ms / 2);
    // Creating and releasing a session takes some requests.
    expect(pausesMs[at]).toBeLessThan(ms + 500);
  }
});

it("reports once per reason why no session can be created, and retries", async () => {
  const bucket = new Wire(new Store(), () => 0.5).bucket();
  const stop = new AbortController();
  const problems: unknown[] = [];
  const away = new FaultError({ code: "unavailable", dependency: "JetStream", retryAfterMs: 1 });
  let refusals = 3;
  const create: typeof bucket.create = (key, value) =>
    (refusals -= 1) < 0 ? bucket.create(key, value) : Promise.reject(away);
  const running = runSessions(
    { ...bucket, create },
    {
      bucket: "modelled",
      holder: "one",
      ttlMs: TTL_MS,
      about: {},
      signal: stop.signal,
      onProblem: (error) => problems.push(error),
    },
    () => {
      stop.abort();
      return Promise.resolve();
    },
  );
  await vi.advanceTimersByTimeAsync(60_000);
  await running;
  expect(problems).toEqual([away]);
});

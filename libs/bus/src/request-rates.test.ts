import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decideRate, isInbox, OTHERS, RequestRates, MAX_USERS, findInboxUser } from "./request-rates.ts";

const never = -Infinity;

describe("one bucket", () => {
  const rate = { perSecond: 10, burst: 3 };
  it.each([
    { name: "that nothing was taken of gives one", fullAtMs: never, atMs: 0, is: { kind: "take", fullAtMs: 100 } },
    { name: "gives the last of its burst", fullAtMs: 200, atMs: 0, is: { kind: "take", fullAtMs: 300 } },
    {
      name: "that is empty returns the time of the next one",
      fullAtMs: 300,
      atMs: 0,
      is: { kind: "refuse", retryAfterMs: 100 },
    },
    { name: "gives it then", fullAtMs: 300, atMs: 100, is: { kind: "take", fullAtMs: 400 } },
    { name: "does not give it before", fullAtMs: 300, atMs: 99, is: { kind: "refuse", retryAfterMs: 1 } },
    { name: "saves no more than its burst", fullAtMs: 300, atMs: 99_000, is: { kind: "take", fullAtMs: 99_100 } },
  ])("$name", ({ fullAtMs, atMs, is }) => {
    expect(decideRate(rate, fullAtMs, atMs)).toEqual(is);
  });
});

const rates = fc.record({ perSecond: fc.integer({ min: 1, max: 5000 }), burst: fc.integer({ min: 1, max: 500 }) });
const steps = fc.array(fc.integer({ min: 0, max: 2000 }), { maxLength: 200 });

it("never admits more than the burst and the refilled tokens, in any period", () => {
  fc.assert(
    fc.property(rates, steps, (rate, pauses) => {
      const users = new RequestRates(rate);
      const taken: number[] = [];
      let nowMs = 0;
      for (const pause of pauses) {
        nowMs += pause;
        for (let n = 0; n < 5; n += 1) if (users.take("a", nowMs) === undefined) taken.push(nowMs);
      }
      for (const [first, fromMs] of taken.entries())
        for (const [last, toMs] of taken.entries())
          if (last >= first)
            expect(last - first + 1).toBeLessThanOrEqual(
              rate.burst + ((toMs - fromMs) * rate.perSecond) / 1000 + 0.01 * (last - first + 1),
            );
    }),
    { numRuns: 50 },
  );
});

it("takes a request at the retry time of the last refusal, and none before", () => {
  fc.assert(
    fc.property(rates, fc.integer({ min: 0, max: 10_000 }), (rate, startMs) => {
      const users = new RequestRates(rate);
      let refusal = users.take("a", startMs);
      for (let n = 0; n < rate.burst && refusal === undefined; n += 1) refusal = users.take("a", startMs);
      const { retryAfterMs = 0 } = refusal ?? {};
      expect(retryAfterMs).toBeGreaterThanOrEqual(1);
      expect(retryAfterMs).toBeLessThanOrEqual(Math.ceil(1000 / rate.perSecond));
      expect(users.take("a", startMs + retryAfterMs)).toBeUndefined();
    }),
  );
});

it("keeps the tokens of each user separate, however many users request", () => {
  fc.assert(
    fc.property(fc.array(fc.nat({ max: 99 }), { maxLength: 500 }), (noise) => {
      const users = new RequestRates({ perSecond: 1, burst: 1 });
      expect(users.take("honest", 0)).toBeUndefined();
      for (const n of noise) users.take(`noise-${n}`, n);
      expect(users.take("honest", 1000)).toBeUndefined();
      expect(users.size).toBeLessThanOrEqual(MAX_USERS + 1);
    }),
  );
});

describe("more users than are counted separately", () => {
  const rate = { perSecond: 1, burst: 2 };
  const full = (): RequestRates => {
    const users = new RequestRates(rate);
    for (let n = 0; n < MAX_USERS; n += 1) for (let times = 0; times < 3; times += 1) users.take(`user-${n}`, 0);
    return users;
  };

  it("share one bucket", () => {
    const users = full();
    const answers = ["late", "later", "latest"].map((name) => users.take(name, 0)?.user);
    expect(answers).toEqual([undefined, undefined, OTHERS]);
    expect(users.take(undefined, 0)).toMatchObject({ user: OTHERS });
    expect(users.size).toBe(MAX_USERS + 1);
  });

  it("get their own bucket once another bucket is full and was not reported lately", () => {
    const users = full();
    expect(users.take("late", 59_999)).toBeUndefined();
    expect(users.size).toBe(MAX_USERS + 1);
    expect(users.take("later", 60_000)).toBeUndefined();
    for (let n = 0; n < 3; n += 1) users.take("later", 60_000);
    expect(users.take("later", 60_000)).toMatchObject({ user: "later" });
    expect(users.size).toBe(MAX_USERS + 1);
  });
});

it("gives the bucket of another user to the request that found it full", () => {
  const users = new RequestRates({ perSecond: 0.01, burst: 1 });
  for (let n = 0; n < MAX_USERS; n += 1) users.take(`user-${n}`, 0);
  users.take(undefined, 99_999);
  expect(users.take(undefined, 100_000)).toMatchObject({ user: OTHERS });
  expect(users.take("later", 100_000)).toBeUndefined();
});

it("returns the token of a request that does not count, also to the shared bucket", () => {
  const rates = new RequestRates({ perSecond: 1, burst: 1 }, 1);
  for (const name of ["a", "b"]) {
    expect(rates.take(name, 0)).toBeUndefined();
    expect(rates.take(name, 0)).toBeDefined();
    rates.restore(name);
    expect(rates.take(name, 0)).toBeUndefined();
  }
});

it("takes several tokens together or none", () => {
  const users = new RequestRates({ perSecond: 1, burst: 10 });
  expect(users.take("a", 0, 8)).toBeUndefined();
  expect(users.take("a", 0, 3)).toMatchObject({ user: "a", retryAfterMs: 1000 });
  expect(users.take("a", 0, 2)).toBeUndefined();
});

it("keeps a user whose bucket is not full, however long ago a refusal was reported", () => {
  const users = new RequestRates({ perSecond: 0.001, burst: 1 });
  for (let n = 0; n < MAX_USERS; n += 1) for (let times = 0; times < 2; times += 1) users.take(`user-${n}`, 0);
  users.take("late", 900_000);
  expect(users.take("late", 900_000)).toMatchObject({ user: OTHERS });
  expect(users.take("user-0", 900_000)).toMatchObject({ user: "user-0" });
});

it("reports a user at the first refusal, and again after a minute with the number of refusals in between", () => {
  const users = new RequestRates({ perSecond: 0.001, burst: 1 });
  users.take("cli", 0);
  const said = [0, 1, 2, 59_999, 60_000, 60_001].map((atMs) => users.take("cli", atMs)?.reportRefused);
  expect(said).toEqual([1, undefined, undefined, undefined, 4, undefined]);
});

it.each([
  ["_INBOX.cli.A1B2.7", "cli"],
  ["_INBOX.session-controller.A1B2.7", "session-controller"],
  ["_INBOX.cli.A1B2.7.more", "cli"],
  // A server with one token for all: the inbox has a connection but no user.
  ["_INBOX.A1B2.7", undefined],
  ["_INBOX.cli", undefined],
  ["_INBOX..A.7", undefined],
  [`_INBOX.${"x".repeat(64)}.A.7`, undefined],
  ["_INBOX.a=b.A.7", undefined],
  ["$KV.muster-sessions.cli.a.b", undefined],
  ["", undefined],
  [undefined, undefined],
])("finds the user of the inbox %s", (reply, user) => {
  expect(findInboxUser(reply)).toBe(user);
});

it.each([
  ["_INBOX.cli.A1B2.7", true],
  ["_INBOX.A1B2.7", true],
  ["$KV.muster-sessions.a", false],
  ["$JS.API.STREAM.PURGE.KV_muster-sessions", false],
  ["muster.log.reservation", false],
  ["_INBOXES.a.b", false],
  ["", false],
  [undefined, false],
])("decides whether %s is an inbox", (reply, is) => {
  expect(isInbox(reply)).toBe(is);
});

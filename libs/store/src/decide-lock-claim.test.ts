import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  decideExpiry,
  decideLockClaim,
  buildLockKey,
  parseKeyName,
  readClaim,
  readSession,
  buildSessionKey,
  type ObservedClaims,
} from "./decide-lock-claim.ts";
import { buildSessionsView } from "./sessions-view.ts";

const session = { holder: "a", ttlMs: 1000, about: { zone: "z" }, revision: 7, seenAtMs: 4000 };

const claims: ObservedClaims = {
  sessions: new Map([
    ["me", session],
    ["other", session],
  ]),
  locks: new Map([
    ["held", { session: "other", revision: 11 }],
    ["mine", { session: "me", revision: 12 }],
    ["left", { session: "ended", revision: 13 }],
    ["garbage", { session: undefined, revision: 14 }],
  ]),
};

describe("deciding about a silent session", () => {
  it("waits for the rest of its time to live", () => {
    expect(decideExpiry(session, 4400)).toEqual({ kind: "wait", forMs: 600, because: "alive" });
  });

  it("deletes it at the observed revision", () => {
    expect(decideExpiry(session, 5000)).toEqual({ kind: "expire", revision: 7, because: "silent" });
  });

  it("never deletes a session before it has stopped by its own clock", () => {
    const times = fc.record({ sentAtMs: fc.nat(9999), delayMs: fc.nat(5000), afterMs: fc.nat(20_000) });
    fc.assert(
      fc.property(times, fc.integer({ min: 1, max: 5000 }), ({ sentAtMs, delayMs, afterMs }, ttlMs) => {
        const seenAtMs = sentAtMs + delayMs;
        const nowMs = seenAtMs + afterMs;
        const decision = decideExpiry({ ...session, ttlMs, seenAtMs }, nowMs);
        if (decision.kind === "expire") expect(nowMs).toBeGreaterThanOrEqual(sentAtMs + ttlMs);
        else expect(decideExpiry({ ...session, ttlMs, seenAtMs }, nowMs + decision.forMs).kind).toBe("expire");
      }),
    );
  });
});

describe("deciding about a lock", () => {
  it.each([
    ["creates one that was never taken", "new", { kind: "create", because: "absent" }],
    ["leaves one that a live session has", "held", { kind: "leave", because: "held" }],
    ["takes one that it wrote itself", "mine", { kind: "take", revision: 12, because: "ours" }],
    ["takes one that is unreadable", "garbage", { kind: "take", revision: 14, because: "unreadable" }],
    [
      "wants to know more of a holder that it does not see",
      "left",
      { kind: "take-from", session: "ended", revision: 13, because: "not-seen" },
    ],
  ])("%s", (_title, lock, expected) => {
    expect(decideLockClaim(claims, lock, "me")).toEqual(expected);
  });

  it("shows which locks are free", () => {
    const { sessions, locks } = buildSessionsView(claims);
    expect([...sessions.keys()]).toEqual(["me", "other"]);
    expect(sessions.get("me")).toEqual({ id: "me", holder: "a", about: { zone: "z" } });
    expect([...locks.values()].map(({ key, free }) => [key, free])).toEqual([
      ["held", false],
      ["mine", false],
      ["left", true],
      ["garbage", true],
    ]);
  });
});

describe("records of the bucket", () => {
  it("are distinguished by their key, and foreign keys are ignored", () => {
    expect(parseKeyName(buildSessionKey("s-1"))).toEqual({ kind: "session", session: "s-1" });
    expect(parseKeyName(buildLockKey("a.b"))).toEqual({ kind: "lock", lock: "a.b" });
    for (const key of ["session", "session.", "session.a.b", "session.ä", "locks.a", "other"])
      expect(parseKeyName(key)).toBeUndefined();
  });

  it("are read as they were written", () => {
    const record = { holder: "a", ttlMs: 5, about: { pools: ["x"] } };
    expect(readSession(record, 1000)).toEqual(record);
    expect(readClaim({ holder: "a", session: "s-1" })).toBe("s-1");
  });

  it("are an unknown session, or none, if they are unreadable", () => {
    const unknown = { holder: "unknown", ttlMs: 1000, about: undefined };
    const values = [
      undefined,
      null,
      3,
      [],
      {},
      { holder: "a", ttlMs: 0, about: {} },
      { holder: "a", ttlMs: 5 },
      { holder: 1, ttlMs: 5, about: {} },
      { holder: "a", ttlMs: "5", about: {} },
      { holder: "a", ttlMs: 5, about: [] },
    ];
    for (const value of values) {
      expect(readSession(value, 1000)).toEqual(unknown);
      expect(readClaim(value)).toBeUndefined();
    }
    expect(readClaim({ session: "not a key" })).toBeUndefined();
  });
});

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decideLock, type ObservedLock } from "./decide-lock.ts";

const held = { holder: "a", session: "s-a", ttlMs: 1000 };

describe("deciding about a lock", () => {
  it.each<[string, ObservedLock, ReturnType<typeof decideLock>]>([
    [
      "creates one that is not there",
      { record: undefined, revision: 0, seenAtMs: 0 },
      { kind: "create", because: "absent" },
    ],
    [
      "takes one that was given up",
      { record: { ...held, holder: "" }, revision: 7, seenAtMs: 5000 },
      { kind: "take", revision: 7, because: "given-up" },
    ],
    [
      "takes one that it wrote itself",
      { record: { ...held, session: "me" }, revision: 7, seenAtMs: 5000 },
      { kind: "take", revision: 7, because: "ours" },
    ],
    [
      "waits for the rest of the holder's time",
      { record: held, revision: 7, seenAtMs: 4400 },
      { kind: "wait", forMs: 400, because: "held" },
    ],
    [
      "takes one whose holder was silent for its whole time",
      { record: held, revision: 7, seenAtMs: 4000 },
      { kind: "take", revision: 7, because: "silent" },
    ],
  ])("%s", (_title, observed, expected) => {
    expect(decideLock(observed, "me", 5000)).toEqual(expected);
  });

  it("never takes a held lock before the holder has stopped by its own clock", () => {
    fc.assert(
      fc.property(
        fc.record({
          sentAtMs: fc.nat(10_000),
          delayMs: fc.nat(5000),
          ttlMs: fc.integer({ min: 1, max: 5000 }),
          afterMs: fc.nat(20_000),
        }),
        ({ sentAtMs, delayMs, ttlMs, afterMs }) => {
          const seenAtMs = sentAtMs + delayMs;
          const nowMs = seenAtMs + afterMs;
          const decision = decideLock({ record: { ...held, ttlMs }, revision: 1, seenAtMs }, "me", nowMs);
          if (decision.kind === "take") expect(nowMs).toBeGreaterThanOrEqual(sentAtMs + ttlMs);
        },
      ),
    );
  });

  it("takes it exactly when it has waited for its announced time", () => {
    fc.assert(
      fc.property(fc.nat(10_000), fc.nat(10_000), fc.integer({ min: 1, max: 5000 }), (seenAtMs, laterMs, ttlMs) => {
        const observed = { record: { ...held, ttlMs }, revision: 1, seenAtMs };
        const nowMs = seenAtMs + laterMs;
        const decision = decideLock(observed, "me", nowMs);
        if (decision.kind === "wait") {
          expect(decideLock(observed, "me", nowMs + decision.forMs).kind).toBe("take");
          expect(decideLock(observed, "me", nowMs + decision.forMs - 1).kind).toBe("wait");
        }
      }),
    );
  });
});

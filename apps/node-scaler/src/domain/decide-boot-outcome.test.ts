import { expect, it } from "vitest";
import { buildNode } from "../../test/build-node.ts";
import { decideBootOutcome, lengthenBackoff } from "./decide-boot-outcome.ts";

const node = buildNode("n", { spec: { zone: "wanted" }, status: { phase: "Creating", instanceId: undefined } });

it("keeps the id and the zone of a started instance", () => {
  expect(decideBootOutcome(node, { kind: "started", instanceId: "i", zone: "got" })).toMatchObject({
    expected: "Creating",
    phase: "Created",
    spec: { zone: "got" },
    status: { instanceId: "i" },
  });
  expect(decideBootOutcome(node, { kind: "started", instanceId: "i", zone: undefined }).spec?.zone).toBe("wanted");
});

it("ends the record of a node whose type is short or missing, with the reason", () => {
  const short = { kind: "no-capacity", zone: "z", subnet: undefined, message: "none left" } as const;
  for (const answer of [short, { kind: "unsupported", message: "none left" } as const])
    expect(decideBootOutcome(node, answer)).toMatchObject({
      phase: "Terminated",
      status: { trouble: { code: "BOOT_REFUSED", message: "none left" } },
      because: "short",
      shortage: answer,
    });
});

it("keeps the record when the outcome at the provider is unknown", () => {
  const outcome = decideBootOutcome(node, { kind: "failed", message: "time is up", retryAfterMs: 0 });
  expect(outcome).toMatchObject({
    because: "failed",
    status: { trouble: { code: "BOOT_REFUSED", message: "time is up" } },
  });
  expect(outcome.phase).toBeUndefined();
});

const asked = { provider: "cloud", instanceType: "small", spot: false, zone: undefined };
const failed = { asked, message: "m", retryAfterMs: 0 };

it("pauses longer after each failure, up to five minutes, or as long as the provider requests", () => {
  let backoff = lengthenBackoff(undefined, failed, 0);
  const pauses = [backoff.untilMs];
  for (let again = 0; again < 6; again += 1) {
    const nowMs = backoff.untilMs;
    backoff = lengthenBackoff(backoff, failed, nowMs);
    pauses.push(backoff.untilMs - nowMs);
  }
  expect(pauses).toEqual([10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000]);
  expect(lengthenBackoff(undefined, { ...failed, retryAfterMs: 60_000 }, 0).untilMs).toBe(60_000);
});

it("counts the failures of one round as one", () => {
  const first = lengthenBackoff(undefined, failed, 0);
  expect(lengthenBackoff(first, failed, 5)).toEqual(first);
});

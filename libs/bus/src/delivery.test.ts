import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { deliverMessage, makeDelivery, retryDelayMs, type DeliveryEndings } from "./delivery.ts";

it("waits a second after the first attempt and doubles up to a minute", () => {
  expect([1, 2, 3, 4, 5, 6, 7, 8, 1000].map(retryDelayMs)).toEqual([
    1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000,
  ]);
});

it("never waits shorter after a later attempt, and never longer than a minute", () => {
  const attempts = fc.integer({ min: 1, max: 2 ** 31 });
  fc.assert(
    fc.property(attempts, attempts, (a, b) => {
      const [earlier, later] = [Math.min(a, b), Math.max(a, b)].map(retryDelayMs);
      expect(earlier).toBeLessThanOrEqual(later ?? 0);
      expect(later).toBeLessThanOrEqual(60_000);
    }),
  );
});

/** Creates a delivery, and records the calls to the underlying bus. */
function delivered(more: Partial<DeliveryEndings> = {}) {
  const calls: string[] = [];
  const note = (call: string) => {
    calls.push(call);
  };
  const message = { subject: "s.a", payload: new Uint8Array(), headers: new Map<string, string>() };
  const delivery = makeDelivery(message, 7, 2, {
    ack: () => {
      note("ack");
      return Promise.resolve();
    },
    working: () => {
      note("working");
    },
    retry: (delayMs) => {
      note(`retry ${String(delayMs)}`);
    },
    giveUp: (reason) => {
      note(`give up: ${reason}`);
    },
    ...more,
  });
  return { delivery, calls };
}

describe("a delivery", () => {
  it("carries its message, sequence and attempt", () => {
    expect(delivered().delivery).toMatchObject({ subject: "s.a", sequence: 7, attempt: 2 });
  });

  it.each<[string, (delivery: ReturnType<typeof makeDelivery>) => unknown]>([
    ["ack", (delivery) => delivery.ack()],
    ["retry 5", (delivery) => delivery.retry(5)],
    ["give up: why", (delivery) => delivery.giveUp("why")],
  ])("ends once: nothing follows %s", async (call, end) => {
    const { delivery, calls } = delivered();
    delivery.working();
    await end(delivery);
    await delivery.ack();
    delivery.working();
    delivery.retry(9);
    delivery.giveUp("late");
    expect(calls).toEqual(["working", call]);
  });

  it("has not ended when its acknowledgement failed", async () => {
    const { delivery, calls } = delivered({ ack: () => Promise.reject(new Error("away")) });
    await expect(delivery.ack()).rejects.toThrow("away");
    delivery.working();
    delivery.retry(5);
    expect(calls).toEqual(["working", "retry 5"]);
  });

  it("is delivered again, and reported, when its handler throws", async () => {
    const { delivery, calls } = delivered();
    const error = new Error("handler");
    const reports: unknown[] = [];
    await deliverMessage(
      delivery,
      () => Promise.reject(error),
      (report) => reports.push(report),
    );
    expect(calls).toEqual(["retry 2000"]);
    expect(reports).toEqual([{ subject: "s.a", sequence: 7, attempt: 2, delayMs: 2000, error }]);
    await expect(deliverMessage(delivered().delivery, () => Promise.reject(error), undefined)).resolves.toBeUndefined();
  });

  it("is left to a handler that succeeds", async () => {
    const { delivery, calls } = delivered();
    await deliverMessage(delivery, () => Promise.resolve(), undefined);
    expect(calls).toEqual([]);
  });
});

import fc from "fast-check";
import { expect, it } from "vitest";
import { runningRequests } from "./running-requests.ts";

const LIMITS = { maxRequests: 5, maxArriving: 2 };

it("refuses the requests of an address beyond its share, and serves other addresses", () => {
  const requests = runningRequests<number>(LIMITS);
  expect([requests.begin(1, "a"), requests.begin(2, "a")]).toEqual([undefined, undefined]);
  expect(requests.begin(3, "a")).toMatchObject({ what: "number of concurrent requests of your address", limit: 2 });
  expect(requests.begin(4, "b")).toBeUndefined();
});

it("frees the share of an address when its requests have arrived, and a slot only when they leave", () => {
  const requests = runningRequests<number>(LIMITS);
  for (let number = 0; number < 5; number += 1) {
    expect(requests.begin(number, "a")).toBeUndefined();
    requests.arrive(number);
  }
  expect(requests.begin(5, "b")).toMatchObject({ what: "number of concurrent requests", limit: 5 });
  requests.leave(5);
  requests.leave(0);
  expect(requests.begin(6, "c")).toBeUndefined();
});

const step = fc.record({
  kind: fc.constantFrom("begin", "arrive", "leave", "close"),
  number: fc.nat(11),
  address: fc.constantFrom("a", "b", "c"),
});

it("counts nothing after every request is closed, in any order, and never admits one over a limit", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const requests = runningRequests<number>(LIMITS);
      const begun = new Set<number>();
      const close = (number: number): void => {
        requests.arrive(number);
        requests.leave(number);
      };
      const admitted = new Set<number>();
      for (const { kind, number, address } of steps) {
        if (kind === "begin" && !begun.has(number)) {
          begun.add(number);
          if (requests.begin(number, address) === undefined) admitted.add(number);
        } else if (kind === "arrive") requests.arrive(number);
        else if (kind === "leave") requests.leave(number);
        else close(number);
        if (kind === "leave" || kind === "close") admitted.delete(number);
        expect(admitted.size).toBeLessThanOrEqual(LIMITS.maxRequests);
      }
      for (const number of begun) close(number);
      expect([requests.running, requests.addresses]).toEqual([0, 0]);
    }),
  );
});

import { FaultError, type Fault } from "@muster/faults";
import { expect, it } from "vitest";
import { anOrder } from "./domain/a-lease.ts";
import type { LeaseRecord } from "./domain/lease.ts";
import { openHoldings } from "./holdings.ts";
import type { LeaseSource } from "./sources/lease-source.ts";
import { takePolled } from "./take-polled.ts";
import type { Answer } from "./tell-lease.ts";

const NS_PER_DAY = 86_400_000_000_000n;
const policy = {
  engine: "main",
  verifySignatures: false,
  legacySignatures: false,
  orderAgeMaxNs: NS_PER_DAY,
  unsealedSecrets: false,
};
const order = anOrder({ id: "1-1", createdNs: 1n, durationNs: NS_PER_DAY });

/** Takes one order that the store does not take the first time, for this. */
async function take(fault: Fault) {
  let tries = 0;
  const told: Answer[] = [];
  const failed: string[] = [];
  const create = (record: LeaseRecord) => {
    tries += 1;
    return tries === 1 ? Promise.reject(new FaultError(fault)) : Promise.resolve({ record, revision: 1 });
  };
  const source: LeaseSource = async function* () {
    await Promise.resolve();
    yield { kind: "order", source: "http", order, withdrawn: false, isAnswered: false };
  };
  await takePolled(
    {
      requests: {
        records: { get: () => Promise.resolve(undefined), change: () => Promise.reject(new Error("no lease")), create },
        nowNs: () => 2n,
        verify: () => true,
        traceparent: () => "",
        policy,
        quota: { leasesMax: 1, bytesMax: 65_536 },
        holdings: openHoldings({}, {}),
      },
      feedback: (answer) => Promise.resolve(void told.push(answer)),
      sign: (result) => ({ ...result, signature: new Uint8Array() }),
      seen: () => undefined,
      historyTaken: () => undefined,
      failed: (_, what) => failed.push(what),
    },
    source,
    new AbortController().signal,
  );
  return { tries, told, failed };
}

it("tries an order that finds no room until it is written down", async () => {
  const full: Fault = { code: "limit_exceeded", what: "size of bucket leases", limit: 9, retryAfterMs: 1 };
  expect(await take(full)).toEqual({ tries: 2, told: [], failed: ["retried"] });
});

it("tells its controller of an order that can never be written down", async () => {
  const large: Fault = { code: "limit_exceeded", what: "value of leases/1-1", limit: 9, retryAfterMs: 0 };
  const { tries, told, failed } = await take(large);
  expect({ tries, failed }).toEqual({ tries: 1, failed: ["refused"] });
  const message = "value of leases/1-1 is over its limit of 9";
  expect(told).toMatchObject([{ id: "1-1", deleted: true, result: { state: "error", message } }]);
});

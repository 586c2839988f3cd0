import { FaultError } from "@muster/faults";
import { expect, it } from "vitest";
import { checkLease, openChecks } from "./check-lease.ts";
import { makeLeaseRecord } from "../../test/a-lease.ts";
import type { LeaseRecord } from "../domain/lease.ts";
import { transitionLease } from "../domain/transition-lease.ts";
import type { PassOutcome } from "./pass.ts";

const NOW = 2_000n;
const signature = new Uint8Array(64);
const result = { id: "1-1", type: "debug", createdNs: 1n, state: "ok", message: "", data: "1", signature } as const;
const FAILS: PassOutcome = { ok: false, message: "its node is away", isRetryable: true };

/** One lease in a bucket, and the outcome of its checks. */
function world(changes: Parameters<typeof makeLeaseRecord>[0] = {}) {
  let stored = { record: makeLeaseRecord({ result, ...changes }), revision: 1 };
  let races = 0;
  const put = (record: LeaseRecord) => (stored = { record, revision: stored.revision + 1 });
  const check = (outcome: PassOutcome | undefined, meanwhile: () => void = () => undefined) =>
    checkLease(
      {
        fence: 1,
        now: () => NOW,
        read: () => Promise.resolve(stored),
        write: (before, next) => {
          if (races > 0) {
            races -= 1;
            put({ ...stored.record, requestId: "another" });
          }
          if (before.revision !== stored.revision)
            throw new FaultError({ code: "conflict", id: "1-1", expectedRevision: 0, actualRevision: 0 });
          return Promise.resolve(put(next));
        },
        sign: (unsigned) => ({ ...unsigned, signature }),
        check: () => {
          meanwhile();
          return Promise.resolve(outcome);
        },
      },
      "1-1",
    );
  return {
    check,
    race: (times: number) => (races = times),
    put,
    now: () => stored.record,
    lines: () => stored.record.outbox.map(({ eventType }) => eventType),
  };
}

it("records the trouble of an active lease, and its recovery once", async () => {
  const { check, now, lines } = world();
  expect(await check({ ok: true, data: "1" })).toBe(false);
  expect(lines()).toEqual([]);
  for (let time = 0; time < 3; time += 1) expect(await check(FAILS)).toBe(true);
  expect(now()).toMatchObject({ phase: "ACTIVE", trouble: "its node is away", result });
  expect(await check({ ok: true, data: "1" })).toBe(false);
  expect(now()).toMatchObject({ phase: "ACTIVE", trouble: "", result });
  expect(lines()).toEqual(["TROUBLED", "RESTORED"]);
});

it("records the missing objects of an active lease that one check recreated", async () => {
  const { check, now } = world();
  await check({ ok: true, data: "1", recreated: ["Deployment lease-1-1", "Service lease-1-1"] });
  expect(now()).toMatchObject({ trouble: "", result });
  expect(now().outbox).toMatchObject([
    { eventType: "RESTORED", message: "recreated: Deployment lease-1-1, Service lease-1-1" },
  ]);
  await check({ ok: true, data: "2", recreated: ["Deployment lease-1-1"] });
  expect(now().outbox.at(-1)?.message).toBe("recreated: Deployment lease-1-1; with another result");
});

it("changes nothing if the check was not possible", async () => {
  const { check, now, lines } = world();
  const away: PassOutcome = { ok: false, message: "kubernetes is unavailable", isRetryable: true, isWaiting: true };
  expect(await check(away)).toBe(false);
  await check(FAILS);
  expect(await check(away)).toBe(false);
  expect(now().trouble).toBe("its node is away");
  expect(lines()).toEqual(["TROUBLED"]);
});

it("records and signs a changed result, even with concurrent writes", async () => {
  const { check, now, race } = world();
  race(3);
  await check({ ok: true, data: "2" });
  expect(now()).toMatchObject({ result: { id: "1-1", data: "2" }, feedback: { result: true, number: 1 } });
  expect(now().requestId).toBe("another");
});

it("changes nothing of a lease that has ended, or runs again, during the check", async () => {
  const { check, now, put } = world();
  await check(FAILS, () => {
    const ending = { cause: "REQUESTED", message: "", request: undefined } as const;
    put(transitionLease(now(), { kind: "ending", ending }, NOW).next ?? now());
  });
  expect(now()).toMatchObject({ phase: "DECOMMISSIONING", trouble: "" });
  const second = world();
  await second.check(FAILS, () => second.put({ ...second.now(), run: 2 }));
  expect(second.now().trouble).toBe("");
  const third = world({ phase: "PROVISIONING" });
  await third.check(FAILS);
  expect(third.now().trouble).toBe("");
  const over = world({ expiresAtNs: NOW - 1n });
  await over.check(FAILS);
  expect(over.now().trouble).toBe("");
});

const MS = 1_000_000n;
const EVERY_MS = 600_000;

it("checks active leases periodically, sooner if they are troubled or have lost something, and no others", () => {
  const checks = openChecks(EVERY_MS, () => 0.5);
  expect(checks.next(makeLeaseRecord({ phase: "PROVISIONING" }), 0n)).toBeUndefined();
  expect(checks.next(makeLeaseRecord(), 0n)).toBe(450_000n * MS);
  expect(checks.next(makeLeaseRecord(), 5n)).toBe(450_000n * MS);
  expect(checks.isDue("1-1", 450_000n * MS)).toBe(false);
  expect(checks.isDue("1-1", 450_000n * MS + 1n)).toBe(true);
  checks.done("1-1", false, 500_000n * MS);
  expect(checks.scheduled("1-1")).toBe(1_100_000n * MS);
  // Pods that disappear repeatedly do not cause constant checks.
  checks.soon("1-1", 501_000n * MS);
  expect(checks.scheduled("1-1")).toBe(510_000n * MS);
  checks.soon("1-1", 520_000n * MS);
  expect(checks.isDue("1-1", 520_000n * MS)).toBe(true);
  checks.done("1-1", true, 600_000n * MS);
  expect(checks.scheduled("1-1")).toBe(660_000n * MS);
  expect(checks.next(makeLeaseRecord({ phase: "DECOMMISSIONING" }), 0n)).toBeUndefined();
  checks.soon("1-1", 0n);
  checks.done("1-1", false, 0n);
  expect(checks.scheduled("1-1")).toBeUndefined();
  expect(checks.isDue("1-1", 10n ** 18n)).toBe(false);
});

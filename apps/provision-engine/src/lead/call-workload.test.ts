import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { FaultError } from "@muster/faults";
import { MAX_DURATION_NS, toNanosecondsFromMs } from "@muster/leases";
import { expect, it } from "vitest";
import { callWorkloads } from "./call-workload.ts";
import { makeLeaseRecord } from "../../test/a-lease.ts";
import type { LeaseRecord } from "../domain/lease.ts";
import type { Workload } from "../types/workload.ts";

const LONG_MS = 600_000;
const hanging = (): Promise<never> => new Promise(() => undefined);
const forEver = makeLeaseRecord({ order: { durationNs: MAX_DURATION_NS }, phase: "PROVISIONING" });

function calling(
  provision: Workload["provision"],
  {
    decommission = () => Promise.resolve(),
    onRead = () => undefined,
    ...changes
  }: {
    deadlineMs?: number;
    nowNs?: () => bigint;
    decommission?: Workload["decommission"];
    onRead?: (id: string) => void;
  } = {},
) {
  const defects: unknown[] = [];
  const waited: string[] = [];
  const stored = new Map<string, LeaseRecord>();
  const calls = callWorkloads({
    workloads: new Map([["debug", { type: "debug", provision, decommission }]]),
    secrets: { open: (order) => order, seal: (_order, result) => result, isSame: () => true },
    nowNs: () => 0n,
    parallel: 1,
    deadlineMs: LONG_MS,
    read: (id) => {
      onRead(id);
      const record = stored.get(id);
      return Promise.resolve(record && { record });
    },
    seen: () => undefined,
    recordWait: (_record, because) => {
      waited.push(because);
      return Promise.resolve();
    },
    recordLoss: () => Promise.resolve(),
    isHeld: () => true,
    signal: new AbortController().signal,
    defect: (_id, error) => defects.push(error),
    ...changes,
  });
  const provisionOf = (record: LeaseRecord) => {
    stored.set(record.order.id, record);
    return calls.provision(record);
  };
  return { ...calls, provision: provisionOf, stored, defects, waited };
}
const outcomeOf = (provision: Workload["provision"], record: LeaseRecord = forEver) =>
  calling(provision).provision(record);
const given = (value: unknown) => () => Promise.resolve(value as string);
const circular: { self?: unknown } = {};
circular.self = circular;

it.each<[string, Workload["provision"], object]>([
  ["returns JSON succeeds", given('{"a":1}'), { ok: true, data: '{"a":1}' }],
  ["returns invalid JSON fails", given("{a:1}"), { ok: false, isRetryable: false }],
  ["returns nothing fails", given(undefined), { ok: false, isRetryable: false }],
  ["returns an object fails", given({ a: 1 }), { ok: false, isRetryable: false }],
  ["returns more than a record holds fails", given(`"${"x".repeat(300_000)}"`), { ok: false, isRetryable: false }],
  ["cannot serialise its result is retried", () => Promise.resolve(JSON.stringify(circular)), { isRetryable: true }],
  ["throws before it waits is retried", () => boom(), { ok: false, isRetryable: true }],
  ["rejects with no fault is retried", () => Promise.reject(new Error("boom")), { ok: false, isRetryable: true }],
  [
    "refuses fails",
    () => Promise.reject(new FaultError({ code: "invalid_request", field: "data", reason: "no" })),
    { ok: false, isRetryable: false, message: "data: no" },
  ],
])("a provisioner that %s", async (_what, provision, outcome) => {
  expect(await outcomeOf(provision)).toMatchObject(outcome);
});

function boom(): never {
  throw new Error("boom");
}

it("records the wait of a provisioner immediately, once for each reason, and not a known one", async () => {
  const seen = ["no node", "no node", "no image", "no image"];
  const waiting: Workload["provision"] = async ({ onWait }) => {
    for (const each of seen) await onWait?.(each);
    return "null";
  };
  const { provision, waited } = calling(waiting);
  await provision(forEver);
  await provision({ ...forEver, trouble: "no node took longer than 30 s" });
  expect(waited).toEqual(["no node", "no image", "no image"]);
});

it("reports errors that are not faults, and no faults", async () => {
  const { provision, defects } = calling(() => Promise.reject(new Error("boom")));
  await provision(forEver);
  expect(defects).toEqual([new Error("boom")]);
});

it("waits for a provisioner until its deadline or the end of its lease, and leaves no queued call waiting", async () => {
  const late = calling(hanging, { deadlineMs: 1 });
  expect(await late.provision(forEver)).toMatchObject({
    ok: false,
    isRetryable: true,
    message: "no answer within 1ms",
  });
  const record = makeLeaseRecord({
    order: { createdNs: 0n, durationNs: toNanosecondsFromMs(20) },
    phase: "PROVISIONING",
  });
  const short = calling(hanging, { nowNs: () => toNanosecondsFromMs(19) });
  const [ended, next] = await Promise.all([short.provision(record), short.provision(record)]);
  expect([ended, next]).toMatchObject([
    { ok: false, isWaiting: true },
    { ok: false, isWaiting: true },
  ]);
});

it("fails retryably to remove a lease of a type that it does not serve", async () => {
  const { provision, decommission } = calling(hanging);
  const record = makeLeaseRecord({
    order: { type: "volume", createdNs: 0n, durationNs: MAX_DURATION_NS },
    phase: "PROVISIONING",
  });
  const outcome = { ok: false, isRetryable: true, message: "type of reservation not served: volume" };
  expect(await decommission(record)).toMatchObject(outcome);
  expect(await provision(record)).toMatchObject(outcome);
});

it("cancels a provisioner whose lease ends, but not for an earlier run, and starts none for one that ended in the queue", async () => {
  const begun: string[] = [];
  const { provision, cancel, stored } = calling(({ order }) => {
    begun.push(order.id);
    return hanging();
  });
  const order = { createdNs: 0n, durationNs: MAX_DURATION_NS };
  const lease = (id: string) => makeLeaseRecord({ order: { ...order, id }, phase: "PROVISIONING", run: 2 });
  const ending = (id: string): LeaseRecord => ({ ...lease(id), phase: "DECOMMISSIONING" });
  const outcomes = ["1-1", "1-2", "1-3"].map((id) => provision(lease(id)));
  cancel({ ...ending("1-1"), run: 1, phase: "FAILED" });
  cancel(ending("1-3"));
  const unwanted = { ok: false, message: "", isWaiting: true };
  expect(await outcomes[2]).toMatchObject(unwanted);
  // The event arrives late in this test, so the call reads the record when its turn starts.
  stored.set("1-2", ending("1-2"));
  await new Promise(setImmediate);
  expect(begun).toEqual(["1-1"]);
  cancel(ending("1-1"));
  expect(await Promise.all(outcomes)).toMatchObject([unwanted, unwanted, unwanted]);
  expect(begun).toEqual(["1-1"]);
});

it("does not wait for the turn of a lease that has ended by then", async () => {
  const { provision, cancel } = calling(hanging);
  const first = provision(forEver);
  const short = makeLeaseRecord({
    order: { id: "1-2", createdNs: 0n, durationNs: toNanosecondsFromMs(1) },
    phase: "PROVISIONING",
  });
  expect(await provision(short)).toMatchObject({
    ok: false,
    message: "",
    isWaiting: true,
  });
  cancel({ ...forEver, phase: "ENDED" });
  await first;
});

it("starts calls round-robin by user, however many leases of one user wait, to provision and to decommission", async () => {
  const made: string[] = [];
  const down: string[] = [];
  const { provision, decommission } = calling(
    ({ order }) => {
      made.push(order.id);
      return Promise.resolve("null");
    },
    {
      decommission: ({ order }) => {
        down.push(order.id);
        return Promise.resolve();
      },
    },
  );
  const lease = (id: string, user: string) =>
    makeLeaseRecord({ order: { id, user, createdNs: 0n, durationNs: MAX_DURATION_NS }, phase: "PROVISIONING" });
  const all = [...["1-1", "1-2", "1-3", "1-4"].map((id) => lease(id, "a")), lease("2-1", "b"), lease("3-1", "c")];
  await Promise.all(all.flatMap((each) => [provision(each), decommission({ ...each, phase: "DECOMMISSIONING" })]));
  const inRounds = ["1-1", "1-2", "2-1", "3-1", "1-3", "1-4"];
  expect({ made, down }).toEqual({ made: inRounds, down: inRounds });
});

it("keeps waiting for its turn if its lease is renewed in the meantime", async () => {
  const read = Promise.withResolvers<undefined>();
  const { provision, cancel, stored } = calling(
    ({ order }) => (order.id === "1-1" ? hanging() : Promise.resolve("1")),
    {
      onRead: (id) => id === "1-2" && read.resolve(undefined),
    },
  );
  const first = provision(forEver);
  const short = makeLeaseRecord({
    order: { id: "1-2", createdNs: 0n, durationNs: toNanosecondsFromMs(1) },
    phase: "PROVISIONING",
  });
  const second = provision(short);
  stored.set("1-2", { ...short, expiresAtNs: toNanosecondsFromMs(LONG_MS) });
  // The former end time has passed.
  await read.promise;
  cancel({ ...forEver, phase: "ENDED" });
  await first;
  expect(await second).toEqual({ ok: true, data: "1" });
});

it("reports a wait if a dependency is unavailable, or the type is not served here", async () => {
  const { check, stored } = calling(hanging, { deadlineMs: 1 });
  const active = makeLeaseRecord({ order: { createdNs: 0n, durationNs: MAX_DURATION_NS } });
  stored.set("1-1", active);
  expect(await check(active)).toMatchObject({ ok: false, isWaiting: true });
  stored.set("1-1", { ...active, order: { ...active.order, type: "volume" } });
  expect(await check(active)).toMatchObject({ ok: false, isWaiting: true });
});

it("treats the losses of an active lease as trouble, even if it queues for a replacement", async () => {
  const lost = new FaultError({ code: "pool_availability", pool: "a", requested: 2, available: 1 });
  const { check, stored } = calling(() => Promise.reject(lost));
  stored.set("1-1", makeLeaseRecord());
  const outcome = await check(makeLeaseRecord());
  expect(outcome).toMatchObject({ ok: false, isWaiting: false });
});

it("reports the objects that a check recreated, and not those created first", async () => {
  const { check, provision, stored } = calling((lease) => {
    lease.onCreated?.("Deployment lease-1-1");
    return Promise.resolve("1");
  });
  expect(await provision(forEver)).toEqual({ ok: true, data: "1" });
  const active = makeLeaseRecord({ order: { durationNs: MAX_DURATION_NS } });
  stored.set("1-1", active);
  expect(await check(active)).toEqual({ ok: true, data: "1", recreated: ["Deployment lease-1-1"] });
});

it("keeps nothing in memory of finished calls", async () => {
  setFlagsFromString("--expose-gc");
  const gc: unknown = runInNewContext("gc");
  if (typeof gc !== "function") throw new Error("the heap cannot be collected");
  const { check, stored } = calling(() => Promise.resolve("1"));
  const active = makeLeaseRecord({ order: { durationNs: MAX_DURATION_NS } });
  stored.set("1-1", active);
  const kibAfter = async (calls: number): Promise<number> => {
    for (let call = 0; call < calls; call += 1) await check(active);
    await new Promise(setImmediate);
    Reflect.apply(gc, undefined, []);
    await new Promise(setImmediate);
    Reflect.apply(gc, undefined, []);
    return process.memoryUsage().heapUsed / 1024;
  };
  const before = await kibAfter(3000);
  // Any state that each call keeps would exceed half a KiB.
  expect((await kibAfter(6000)) - before).toBeLessThan(1500);
});

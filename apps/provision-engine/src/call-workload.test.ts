import { FaultError } from "@muster/faults";
import { DURATION_NS_MAX, nsFromMs } from "@muster/leases";
import { expect, it } from "vitest";
import { callWorkloads } from "./call-workload.ts";
import { aLease } from "./domain/a-lease.ts";
import type { LeaseRecord } from "./domain/lease.ts";
import type { Workload } from "./workloads/workload.ts";

const LONG_MS = 600_000;
const hanging = (): Promise<never> => new Promise(() => undefined);
const forEver = aLease({ order: { durationNs: DURATION_NS_MAX }, phase: "PROVISIONING" });

function calling(provision: Workload["provision"], changes: { deadlineMs?: number; nowNs?: () => bigint } = {}) {
  const defects: unknown[] = [];
  const stored = new Map<string, LeaseRecord>();
  const calls = callWorkloads({
    workloads: new Map([["debug", { type: "debug", provision, decommission: () => Promise.resolve() }]]),
    nowNs: () => 0n,
    parallel: 1,
    deadlineMs: LONG_MS,
    read: (id) => {
      const record = stored.get(id);
      return Promise.resolve(record && { record });
    },
    isHeld: () => true,
    signal: new AbortController().signal,
    defect: (_id, error) => defects.push(error),
    ...changes,
  });
  const provisionOf = (record: LeaseRecord) => {
    stored.set(record.order.id, record);
    return calls.provision(record);
  };
  return { ...calls, provision: provisionOf, stored, defects };
}
const outcomeOf = (provision: Workload["provision"], record: LeaseRecord = forEver) =>
  calling(provision).provision(record);
const given = (value: unknown) => () => Promise.resolve(value as string);
const circular: { self?: unknown } = {};
circular.self = circular;

it.each<[string, Workload["provision"], object]>([
  ["gives JSON has made it", given('{"a":1}'), { ok: true, data: '{"a":1}' }],
  ["gives what is no JSON has failed", given("{a:1}"), { ok: false, retryable: false }],
  ["gives nothing has failed", given(undefined), { ok: false, retryable: false }],
  ["gives an object has failed", given({ a: 1 }), { ok: false, retryable: false }],
  ["gives more than a record holds has failed", given(`"${"x".repeat(300_000)}"`), { ok: false, retryable: false }],
  ["cannot write what it gives is tried again", () => Promise.resolve(JSON.stringify(circular)), { retryable: true }],
  ["throws before it waits is tried again", () => boom(), { ok: false, retryable: true }],
  ["rejects with no fault is tried again", () => Promise.reject(new Error("boom")), { ok: false, retryable: true }],
  [
    "refuses has failed",
    () => Promise.reject(new FaultError({ code: "invalid_request", field: "data", reason: "no" })),
    { ok: false, retryable: false, message: "data: no" },
  ],
])("a provisioner that %s", async (_what, provision, outcome) => {
  expect(await outcomeOf(provision)).toMatchObject(outcome);
});

function boom(): never {
  throw new Error("boom");
}

it("tells of what is no fault, and not of faults", async () => {
  const { provision, defects } = calling(() => Promise.reject(new Error("boom")));
  await provision(forEver);
  expect(defects).toEqual([new Error("boom")]);
});

it("waits for a provisioner no longer than its deadline, nor than its lease lasts, and leaves none beside it waiting", async () => {
  const late = calling(hanging, { deadlineMs: 1 });
  expect(await late.provision(forEver)).toMatchObject({ ok: false, retryable: true, message: "no answer within 1 ms" });
  const record = aLease({ order: { createdNs: 0n, durationNs: nsFromMs(20) }, phase: "PROVISIONING" });
  const short = calling(hanging, { nowNs: () => nsFromMs(19) });
  const [ended, next] = await Promise.all([short.provision(record), short.provision(record)]);
  expect([ended, next]).toMatchObject([
    { ok: false, retryable: true },
    { ok: false, retryable: true },
  ]);
});

it("takes down nothing of a type that it does not serve, so that this is tried again", async () => {
  const { provision, decommission } = calling(hanging);
  const record = aLease({
    order: { type: "volume", createdNs: 0n, durationNs: DURATION_NS_MAX },
    phase: "PROVISIONING",
  });
  const outcome = { ok: false, retryable: true, message: "type of reservation not served: volume" };
  expect(await decommission(record)).toMatchObject(outcome);
  expect(await provision(record)).toMatchObject(outcome);
});

it("gives up a provisioner whose lease ends, but not for an earlier run of it, and begins none for one that ended in the queue", async () => {
  const begun: string[] = [];
  const { provision, cut, stored } = calling(({ order }) => {
    begun.push(order.id);
    return hanging();
  });
  const order = { createdNs: 0n, durationNs: DURATION_NS_MAX };
  const lease = (id: string) => aLease({ order: { ...order, id }, phase: "PROVISIONING", run: 2 });
  const ending = (id: string): LeaseRecord => ({ ...lease(id), phase: "DECOMMISSIONING" });
  const outcomes = ["1-1", "1-2", "1-3"].map((id) => provision(lease(id)));
  cut({ ...ending("1-1"), run: 1, phase: "FAILED" });
  cut(ending("1-3"));
  const unwanted = { ok: false, message: "it was ended before it was there" };
  expect(await outcomes[2]).toMatchObject(unwanted);
  // What tells of it is late here; its record is read when its turn comes.
  stored.set("1-2", ending("1-2"));
  await new Promise(setImmediate);
  expect(begun).toEqual(["1-1"]);
  cut(ending("1-1"));
  expect(await Promise.all(outcomes)).toMatchObject([unwanted, unwanted, unwanted]);
  expect(begun).toEqual(["1-1"]);
});

it("does not wait for the turn of a lease that is over by then", async () => {
  const { provision, cut } = calling(hanging);
  const first = provision(forEver);
  const short = aLease({ order: { id: "1-2", createdNs: 0n, durationNs: nsFromMs(1) }, phase: "PROVISIONING" });
  expect(await provision(short)).toMatchObject({ ok: false, message: "its time was over before its turn came" });
  cut({ ...forEver, phase: "ENDED" });
  await first;
});

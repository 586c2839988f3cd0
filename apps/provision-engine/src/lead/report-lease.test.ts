import { FaultError, type Fault } from "@muster/faults";
import { toNanosecondsFromMs, type Result } from "@muster/leases";
import { digest } from "@muster/leases/keys";
import { until } from "@muster/testkit";
import { expect, it } from "vitest";
import { makeLeaseRecord } from "../../test/a-lease.ts";
import type { LeaseEvent, LeaseRecord } from "../domain/lease.ts";
import { hashOrder } from "../domain/signed-content.ts";
import { transitionLease } from "../domain/transition-lease.ts";
import type { LeaseChange } from "../domain/lease-change.ts";
import { startLeaseController } from "./lease-controller.ts";
import type { StoredLease } from "../holdings/records.ts";
import { openReporter, type LeaseFeedback } from "./report-lease.ts";

const result = (id: string): Result => ({
  id,
  type: "debug",
  createdNs: 1n,
  state: "ok",
  message: "",
  data: "{}",
  signature: new Uint8Array(64),
});
const POLICY = { retry: { firstMs: 1000, maxMs: 60_000 }, refusedRetryMs: 600_000, maxRefusals: 3 };

/** Leases whose source answers as the test sets it, and a clock that only the test moves. */
function telling() {
  const records = new Map<string, StoredLease>();
  const reported: string[] = [];
  let nowMs = 0;
  let trouble: ((id: string) => Fault | undefined) | undefined;
  let asked = 0;
  let writes = 0;
  let overtaking: ((id: string) => void) | undefined;
  let answers: PromiseWithResolvers<undefined> | undefined;
  let away = false;
  // Results are signed with the key of this number.
  let key = 0;
  const results: (Result | undefined)[] = [];
  const published: string[] = [];
  const woken = Promise.withResolvers<string>();
  const put = (record: LeaseRecord): StoredLease => {
    const stored = { record, revision: (records.get(record.order.id)?.revision ?? 0) + 1 };
    records.set(record.order.id, stored);
    return stored;
  };
  const nowNs = (): bigint => toNanosecondsFromMs(nowMs);
  const deps = {
    seen: (id: string) => records.get(id),
    records: {
      get: (id: string) => Promise.resolve(records.get(id)),
      own: (stored: StoredLease, next: LeaseRecord) => {
        const { id } = stored.record.order;
        if (away) return Promise.reject(new FaultError(AWAY));
        overtaking?.(id);
        overtaking = undefined;
        const actualRevision = records.get(id)?.revision ?? 0;
        const expectedRevision = stored.revision;
        if (actualRevision !== expectedRevision)
          return Promise.reject(new FaultError({ code: "conflict", id, expectedRevision, actualRevision }));
        writes += 1;
        return Promise.resolve(put(next));
      },
    },
    history: {
      publish: (events: readonly LeaseEvent[]) => {
        published.push(...events.map(({ eventType }) => eventType));
        return Promise.resolve();
      },
    },
    sign: (unsigned: Omit<Result, "signature">) => ({ ...unsigned, signature: new Uint8Array(64).fill(key) }),
    feedback: async ({ id, number, deleted, result: answer }: LeaseFeedback) => {
      asked += 1;
      results.push(answer);
      await answers?.promise;
      const fault = trouble?.(id);
      if (fault !== undefined) throw new FaultError(fault);
      reported.push(`${id} ${number} ${deleted ? "deleted" : "result"}`);
    },
    nowNs,
    policy: POLICY,
    digest,
    fence: 1,
    // A hanging source is late immediately; all other sources answer in time.
    isInTime: async (answered: Promise<unknown>) => {
      if (answers !== undefined) return false;
      await answered;
      return true;
    },
    wake: (id: string) => woken.resolve(id),
    failed: () => undefined,
  };
  const { report } = openReporter(deps);
  return {
    report,
    reported,
    records,
    published,
    /** After this call the source answers only after `answer`. */
    hang: () => (answers = Promise.withResolvers()),
    answer: () => answers?.resolve(undefined),
    /** The first lease that is woken. */
    woken: woken.promise,
    /** Replaces the engine's key. */
    changeKey: () => (key += 1),
    results,
    refuseWrites: (isRefusing: boolean) => (away = isRefusing),
    asked: () => asked,
    writes: () => writes,
    add: (id: string) => void put(makeLeaseRecord({ order: { id }, phase: "PROVISIONING", fence: 1 })),
    change: (id: string, change: LeaseChange) => {
      const next = transitionLease(records.get(id)!.record, change, nowNs()).next;
      if (next !== undefined) put(next);
    },
    /** Lets another writer be first at the next write. */
    overtake: (next: typeof overtaking) => (overtaking = next),
    trouble: (next: typeof trouble) => (trouble = next),
    /** Advances the clock, and reports each lease as often as it requests. */
    pass: async (ms: number) => {
      const endMs = nowMs + ms;
      const again = new Map<string, bigint>();
      for (; nowMs <= endMs; nowMs += 500) {
        for (const id of records.keys()) {
          if (nowNs() <= (again.get(id) ?? -1n)) continue;
          const atNs = await report(id);
          again.set(id, atNs ?? -1n);
        }
      }
    },
  };
}
const provisioned = (id: string): LeaseChange => ({ kind: "provisioned", result: result(id) });
const ended: LeaseChange = { kind: "ending", ending: { cause: "REQUESTED", message: "", request: undefined } };
const AWAY: Fault = { code: "unavailable", dependency: "x", retryAfterMs: 0 };

it("reports everything after an hour without the source, the last state of each lease last", async () => {
  const world = telling();
  const ids = Array.from({ length: 20 }, (_, at) => `1-${at}`);
  world.trouble(() => AWAY);
  for (const id of ids) world.add(id);
  for (const id of ids) world.change(id, provisioned(id));
  await world.pass(1_800_000);
  const over = ids.slice(0, 5);
  for (const id of over) {
    world.change(id, ended);
    world.change(id, { kind: "decommissioned" });
  }
  await world.pass(1_800_000);
  expect(world.reported).toEqual([]);
  // The pause grows to a minute, which allows about one attempt per minute.
  expect(world.asked()).toBeLessThan(ids.length * 80);
  world.trouble(undefined);
  await world.pass(61_000);
  const expected = ids.map((id) => (over.includes(id) ? `${id} 3 deleted` : `${id} 1 result`));
  expect(world.reported.toSorted()).toEqual(expected.toSorted());
});

it("reports the events of a lease in order", async () => {
  const world = telling();
  world.add("1-1");
  world.change("1-1", provisioned("1-1"));
  await world.pass(1000);
  world.change("1-1", ended);
  world.change("1-1", { kind: "decommissioned" });
  await world.pass(1000);
  expect(world.reported).toEqual(["1-1 1 result", "1-1 3 deleted"]);
});

it("a refusal delays no other lease, is retried rarely and finally abandoned, with both recorded", async () => {
  const world = telling();
  world.trouble((id) => (id === "1-1" ? { code: "invalid_request", field: "x", reason: "no" } : undefined));
  for (const id of ["1-1", "1-2"]) {
    world.add(id);
    world.change(id, provisioned(id));
  }
  await world.pass(1000);
  expect(world.reported).toEqual(["1-2 1 result"]);
  await world.pass(3_600_000);
  expect(world.asked()).toBe(1 + POLICY.maxRefusals);
  const { feedback, events } = world.records.get("1-1")!.record;
  expect(feedback).toMatchObject({ result: false, deleted: false, refusals: 0 });
  // The events are PROVISIONED, the first refusal and the last.
  expect(events).toBe(3);
  world.trouble(undefined);
  world.change("1-1", { kind: "resent" });
  await world.pass(1000);
  expect(world.reported).toContain("1-1 2 result");
});

it("removes the data of a lease in the same write that records its reported end, and not before", async () => {
  const world = telling();
  world.add("1-1");
  world.change("1-1", provisioned("1-1"));
  await world.pass(1000);
  world.change("1-1", ended);
  world.change("1-1", { kind: "decommissioned" });
  world.trouble(() => AWAY);
  await world.pass(1000);
  const unreported = world.records.get("1-1")!.record;
  expect(unreported).toMatchObject({ order: { data: "{}" }, result: { data: "{}" }, orderHash: undefined });
  world.trouble(undefined);
  const before = world.writes();
  await world.pass(60_000);
  const { order, result: kept, orderHash, feedback } = world.records.get("1-1")!.record;
  expect(world.writes()).toBe(before + 1);
  expect(feedback).toMatchObject({ result: false, deleted: false });
  expect([order.data, kept?.data, kept?.state]).toEqual(["", "", "ok"]);
  expect(orderHash).toEqual(hashOrder(unreported.order, digest));
  // A sender that still has the order gets an equal answer.
  world.change("1-1", { kind: "resent", data: unreported.order.data });
  await world.pass(60_000);
  expect(world.reported).toEqual(["1-1 1 result", "1-1 3 deleted", "1-1 4 deleted"]);
});

it("records sent feedback even if the record has changed in the meantime, without sending it again", async () => {
  const world = telling();
  world.add("1-1");
  await world.pass(500);
  world.change("1-1", provisioned("1-1"));
  world.overtake((id) => world.change(id, ended));
  await world.pass(500);
  expect(world.reported).toEqual(["1-1 1 result"]);
  expect(world.asked()).toBe(1);
  expect(world.records.get("1-1")!.record).toMatchObject({ phase: "DECOMMISSIONING", events: 2 });
});

it("waits as long as the source requests", async () => {
  const world = telling();
  world.add("1-1");
  world.change("1-1", provisioned("1-1"));
  world.trouble(() => ({ ...AWAY, retryAfterMs: 600_000 }));
  await world.pass(599_000);
  expect(world.asked()).toBe(1);
});

it("publishes history while the source hangs, sends the feedback once, and then later feedback", async () => {
  const world = telling();
  world.add("1-1");
  world.change("1-1", provisioned("1-1"));
  world.hang();
  await world.pass(500);
  expect(world.published).toEqual(["PROVISIONED"]);
  world.change("1-1", ended);
  await world.report("1-1");
  expect(world.published).toEqual(["PROVISIONED", "ENDING"]);
  expect(world.records.get("1-1")!.record.outbox).toEqual([]);
  world.change("1-1", { kind: "decommissioned" });
  expect(world.asked()).toBe(1);
  world.answer();
  expect(await world.woken).toBe("1-1");
  await world.pass(1000);
  expect(world.reported).toEqual(["1-1 1 result", "1-1 3 deleted"]);
  expect(world.records.get("1-1")!.record.feedback).toMatchObject({ result: false, deleted: false });
});

it("does not resend late feedback although the first write of its outcome failed", async () => {
  const world = telling();
  world.add("1-1");
  world.change("1-1", provisioned("1-1"));
  world.hang();
  await world.pass(500);
  world.answer();
  await world.woken;
  world.refuseWrites(true);
  await expect(world.report("1-1")).rejects.toMatchObject({ fault: AWAY });
  world.refuseWrites(false);
  await world.report("1-1");
  await world.report("1-1");
  expect(world.reported).toEqual(["1-1 1 result"]);
  expect(world.records.get("1-1")!.record.feedback.result).toBe(false);
});

it("records late feedback although its history could not be written in the meantime", async () => {
  const world = telling();
  world.add("1-1");
  await world.pass(500);
  world.change("1-1", provisioned("1-1"));
  world.hang();
  world.refuseWrites(true);
  await expect(world.report("1-1")).rejects.toMatchObject({ fault: AWAY });
  world.refuseWrites(false);
  await world.report("1-1");
  world.answer();
  expect(await world.woken).toBe("1-1");
  await world.report("1-1");
  expect(world.reported).toEqual(["1-1 1 result"]);
  expect(world.records.get("1-1")!.record.feedback.result).toBe(false);
});

it("reports a lease whose source hangs concurrently with the others", async () => {
  const stop = new AbortController();
  const looked: string[] = [];
  const hanging = Promise.withResolvers<undefined>();
  const controller = startLeaseController({
    name: "tested",
    reconcile: (id) => {
      looked.push(id);
      return id === "1-1" ? hanging.promise : Promise.resolve(undefined);
    },
    nowNs: () => 0n,
    retry: POLICY.retry,
    failed: () => undefined,
    lead: { signal: stop.signal, lost: stop.signal, isHeld: () => true },
  });
  for (const id of ["1-1", "1-2", "1-3"]) controller.add(id);
  await until("all are looked at", () => looked.length === 3);
  expect(looked).toEqual(["1-1", "1-2", "1-3"]);
  hanging.resolve(undefined);
  stop.abort();
  await controller.done;
});

it("signs repeated feedback with the present key, and keeps that signature", async () => {
  const world = telling();
  world.add("1-1");
  world.change("1-1", provisioned("1-1"));
  await world.pass(500);
  world.changeKey();
  world.change("1-1", { kind: "resent" });
  await world.pass(500);
  const signatures = world.results.map((answer) => answer?.signature[0]);
  expect(signatures).toEqual([0, 1]);
  expect(world.records.get("1-1")?.record.result?.signature[0]).toBe(1);
});

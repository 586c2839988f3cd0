import { waitUntilSettled, makeVirtualClock } from "@muster/testkit";
import type { Order } from "@muster/leases";
import { expect, it } from "vitest";
import { makeLeaseRecord, DATA_BY_TYPE } from "../../test/a-lease.ts";
import { ENGINE_NOW_NS, makeEngineOps } from "../../test/engine-ops.ts";
import type { LeaseRecord } from "../domain/lease.ts";
import type { StoredLease } from "../holdings/records.ts";
import { makeCallPauses } from "./call-pauses.ts";
import { buildPassDeps } from "./engine-ops.ts";
import { runEngine } from "./engine.ts";
import { makeLeasePasses } from "./pass.ts";
import { makeWaitingLeases } from "./wake-leases.ts";

it("counts a lease that begins after another one was observed, so that both together stay within the capacity", async () => {
  const ids = ["1-1", "1-2"];
  const calls: string[] = [];
  const ops = makeEngineOps(calls, { cru: 1n });
  for (const id of ids) ops.holdings.learn(stored({ id, type: "container" }, { phase: "ORDERED" }));
  const stop = new AbortController();
  const lead = { token: 9, signal: stop.signal, lost: stop.signal, isHeld: () => true };
  const deps = buildPassDeps(ops, lead, makeWaitingLeases(), makeCallPauses(ops.policy.pass.retry));
  const pass = makeLeasePasses(deps, ops.policy.pass);
  // Both passes observe before either acts.
  await Promise.all(ids.map((id) => pass(id, stop.signal)));
  expect(calls).toEqual(["provision 1-1"]);
  expect(ids.map((id) => ops.holdings.find(id)?.phase)).toEqual(["ACTIVE", "FAILED"]);
});

it("removes a network after its last container has ended, even if nothing reports that end", async () => {
  const clock = makeVirtualClock();
  const calls: string[] = [];
  const ops = makeEngineOps(calls, {});
  const network = stored({ id: "1-1", type: "network" }, { phase: "DECOMMISSIONING" });
  const data = JSON.stringify({ ...DATA_BY_TYPE["container"], network: "net" });
  ops.holdings.learn(stored({ id: "1-2", type: "container", data }, { phase: "ACTIVE" }));
  const stop = new AbortController();
  const records = { ...ops.records, list: () => Promise.resolve([network]) };
  const running = runEngine(
    { ...ops, records, clock },
    { token: 9, signal: stop.signal, lost: stop.signal, isHeld: () => true },
  );
  await waitUntilSettled();
  await clock.run(60_000);
  expect(calls).toEqual([]);
  ops.holdings.forget("1-2");
  await clock.run(15_000);
  await waitUntilSettled();
  expect(calls).toEqual(["decommission 1-1"]);
  stop.abort();
  await running;
});

function stored(order: Partial<Order> & { readonly type: string }, changes: Partial<LeaseRecord>): StoredLease {
  const data = JSON.stringify(DATA_BY_TYPE[order.type]);
  const whole = { data, createdNs: ENGINE_NOW_NS, durationNs: 3_600_000_000_000n, ...order };
  return { record: makeLeaseRecord({ ...changes, order: whole }), revision: 1 };
}

import { nsFromMs } from "@muster/leases";
import { digest } from "@muster/leases/keys";
import { expect, it } from "vitest";
import { aLease, DATA_BY_TYPE } from "../../test/a-lease.ts";
import { NO_PODS } from "../adapters/crash-watch.ts";
import { readConfig } from "../config.ts";
import { openHoldings } from "../holdings/holdings.ts";
import type { Stored } from "../holdings/records.ts";
import type { Workload } from "../types/workload.ts";
import { callPauses } from "./call-pauses.ts";
import { passDepsOf, type EngineOps } from "./engine-ops.ts";
import { leasePasses } from "./pass.ts";
import { waitingLeases } from "./wake-leases.ts";

const CREATED_NS = nsFromMs(Date.now());
const ORDER = { type: "container", data: JSON.stringify(DATA_BY_TYPE["container"]), createdNs: CREATED_NS };

it("counts a lease that begins after another one was observed, so that both together stay within the capacity", async () => {
  const ids = ["1-1", "1-2"];
  const made: string[] = [];
  const ops = opsWith(made);
  for (const id of ids) ops.holdings.learn(orderedLease(id));
  const stop = new AbortController();
  const lead = { token: 9, signal: stop.signal, lost: stop.signal, isHeld: () => true };
  const deps = passDepsOf(ops, lead, waitingLeases(), callPauses(ops.policy.pass.retry));
  const pass = leasePasses(deps, ops.policy.pass);
  // Both observe before either acts.
  await Promise.all(ids.map((id) => pass(id, stop.signal)));
  expect(made).toEqual(["1-1"]);
  expect(ids.map((id) => ops.holdings.find(id)?.phase)).toEqual(["ACTIVE", "FAILED"]);
});

function orderedLease(id: string): Stored {
  const order = { ...ORDER, id, durationNs: 3_600_000_000_000n };
  return { record: aLease({ order, phase: "ORDERED" }), revision: 1 };
}

/** An engine with room for one container, whose store accepts each write. */
function opsWith(made: string[]): EngineOps {
  const holdings = openHoldings({ cru: 1n }, {});
  const unused = () => Promise.reject(new Error("unexpected call"));
  const workload: Workload = {
    type: "container",
    provision: ({ order }) => {
      made.push(order.id);
      return Promise.resolve("{}");
    },
    decommission: () => Promise.resolve(),
  };
  return {
    engine: "main",
    view: { get: () => undefined, entries: () => [], onChange: () => () => undefined },
    records: {
      get: (id) => Promise.resolve(holdings.seen(id)),
      list: unused,
      create: unused,
      change: unused,
      own: ({ revision }, record) => Promise.resolve({ record, revision: revision + 1 }),
      remove: unused,
    },
    history: { publish: () => Promise.resolve() },
    feedback: () => Promise.resolve(),
    holdings,
    workloads: new Map([["container", workload]]),
    secrets: { open: (order) => order, isSame: () => true, seal: (_, result) => result },
    crashes: NO_PODS,
    grants: { onGrant: () => () => undefined },
    sign: (result) => ({ ...result, signature: new Uint8Array() }),
    digest,
    nowNs: () => CREATED_NS,
    policy: readConfig({ PROVISION_KEY: "11".repeat(32) }).engine,
    report: { failed: () => undefined, defect: () => undefined, planned: () => undefined, stuck: () => undefined },
  };
}

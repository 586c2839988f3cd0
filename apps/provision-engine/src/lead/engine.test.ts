import { FaultError } from "@muster/faults";
import { toNanosecondsFromMs } from "@muster/leases";
import { digest } from "@muster/leases/keys";
import { until } from "@muster/testkit";
import { expect, it } from "vitest";
import { NO_PODS } from "../adapters/crash-watch.ts";
import { readConfig } from "../config.ts";
import { makeLeaseRecord } from "../../test/a-lease.ts";
import type { LeasePhase } from "../domain/lease.ts";
import { runEngine } from "./engine.ts";
import type { EngineOps } from "./engine-ops.ts";
import { openLeaseRegistry } from "../holdings/lease-registry.ts";
import type { StoredLease } from "../holdings/records.ts";
import type { Workload } from "../types/workload.ts";

const CREATED_NS = toNanosecondsFromMs(Date.now());
const ORDER = { createdNs: CREATED_NS, durationNs: 3_600_000_000_000n };
/** The last write of the previous leader. */
const TRUTH: StoredLease = {
  record: makeLeaseRecord({ order: ORDER, phase: "ENDED", endedAtNs: CREATED_NS }),
  revision: 8,
};
/** The state of this replica's view. */
const LATE: StoredLease = { record: makeLeaseRecord({ order: ORDER, phase: "PROVISIONING" }), revision: 5 };

it.each(["a change", "a grant"])(
  "creates nothing for a lease that has ended, however far behind the view is when it reports %s",
  async (what) => {
    const world = worldBehind();
    const stop = new AbortController();
    const running = runEngine(world.ops, {
      token: 9,
      signal: stop.signal,
      lost: new AbortController().signal,
      isHeld: () => true,
    });
    // The change arrives while the records are read.
    world.notify(what === "a change" ? "change" : "grant");
    world.listed.resolve([TRUTH]);
    await until("the lease is decided about as it is", () => world.planned.includes("ENDED"));
    stop.abort();
    await running;
    expect(world.made).toEqual([]);
  },
);

it.each<[what: string, listed: StoredLease[]]>([
  ["nothing", []],
  ["less", [LATE]],
])("processes a lease that the store lists %s, while the view is newer from the beginning", async (_, listed) => {
  const world = worldBehind();
  world.ops.holdings.learn(TRUTH);
  const known = { key: "1-1", value: { record: TRUTH.record }, revision: TRUTH.revision };
  const view = { ...world.ops.view, get: () => known, entries: () => [known] };
  const stop = new AbortController();
  const running = runEngine(
    { ...world.ops, view },
    { token: 9, signal: stop.signal, lost: new AbortController().signal, isHeld: () => true },
  );
  world.listed.resolve(listed);
  await until("it is decided about", () => world.planned.includes("ENDED"));
  stop.abort();
  await running;
});

/** A store with the truth, a view that is behind it, and a workload that records its calls. */
function worldBehind() {
  const listed = Promise.withResolvers<StoredLease[]>();
  const made: string[] = [];
  const planned: LeasePhase[] = [];
  const unasked = () => Promise.reject(new Error("unexpected call"));
  const conflict = {
    code: "conflict",
    id: "1-1",
    expectedRevision: LATE.revision,
    actualRevision: TRUTH.revision,
  } as const;
  const listeners = new Map<string, (id: string) => void>();
  const on = (what: string) => (listener: (id: string) => void) => {
    listeners.set(what, listener);
    return () => listeners.delete(what);
  };
  const workload: Workload = {
    type: "debug",
    provision: ({ order }) => {
      made.push(order.id);
      return Promise.resolve("{}");
    },
    decommission: () => Promise.resolve(),
  };
  const holdings = openLeaseRegistry({}, {});
  // A replica learns this state without leading.
  holdings.learn(LATE);
  const config = readConfig({ PROVISION_KEY: "11".repeat(32) });
  const ops: EngineOps = {
    engine: "main",
    view: {
      get: (key) => ({ key, value: { record: LATE.record }, revision: LATE.revision }),
      entries: () => [],
      onChange: on("change"),
    },
    records: {
      get: () => Promise.resolve(TRUTH),
      list: () => listed.promise,
      create: unasked,
      change: unasked,
      own: () => Promise.reject(new FaultError(conflict)),
      remove: unasked,
    },
    history: { publish: () => Promise.resolve() },
    feedback: () => Promise.resolve(),
    holdings,
    workloads: new Map([["debug", workload]]),
    secrets: { open: (order) => order, isSame: () => true, seal: (_, result) => result },
    crashes: NO_PODS,
    grants: { onGrant: on("grant") },
    sign: (result) => ({ ...result, signature: new Uint8Array() }),
    digest,
    nowNs: () => toNanosecondsFromMs(Date.now()),
    policy: config.engine,
    report: {
      failed: () => undefined,
      defect: () => undefined,
      planned: ({ lease }) => void planned.push(lease.phase),
      stuck: () => undefined,
    },
  };
  return { ops, listed, made, planned, notify: (what: "change" | "grant") => listeners.get(what)?.("1-1") };
}

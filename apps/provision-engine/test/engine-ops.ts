import { toNanosecondsFromMs } from "@muster/leases";
import { digest } from "@muster/leases/keys";
import { NO_PODS } from "../src/adapters/crash-watch.ts";
import { readConfig } from "../src/config.ts";
import type { EngineCapacity } from "../src/domain/claim.ts";
import { openLeaseRegistry } from "../src/holdings/lease-registry.ts";
import type { EngineOps } from "../src/lead/engine-ops.ts";
import type { Workload } from "../src/types/workload.ts";

/** The time of day of the engine. */
export const ENGINE_NOW_NS = toNanosecondsFromMs(1_700_000_000_000);

/** An engine of containers and networks, whose store accepts each write. Calls of workloads are recorded. */
export function makeEngineOps(calls: string[], capacity: EngineCapacity): EngineOps {
  const holdings = openLeaseRegistry(capacity, {});
  const unused = () => Promise.reject(new Error("unexpected call"));
  const workload = (type: string): Workload => ({
    type,
    provision: ({ order }) => {
      calls.push(`provision ${order.id}`);
      return Promise.resolve("{}");
    },
    decommission: ({ order }) => {
      calls.push(`decommission ${order.id}`);
      return Promise.resolve();
    },
  });
  return {
    engine: "main",
    view: { get: () => undefined, entries: () => [], onChange: () => () => undefined },
    records: {
      get: (id) => Promise.resolve(holdings.seen(id)),
      list: () => Promise.resolve([]),
      create: unused,
      change: unused,
      own: ({ revision }, record) => Promise.resolve({ record, revision: revision + 1 }),
      remove: unused,
    },
    history: { publish: () => Promise.resolve() },
    feedback: () => Promise.resolve(),
    holdings,
    workloads: new Map(["container", "network"].map((type) => [type, workload(type)])),
    secrets: { open: (order) => order, isSame: () => true, seal: (_, result) => result },
    crashes: NO_PODS,
    grants: { onGrant: () => () => undefined },
    sign: (result) => ({ ...result, signature: new Uint8Array() }),
    digest,
    nowNs: () => ENGINE_NOW_NS,
    policy: readConfig({ PROVISION_KEY: "11".repeat(32) }).engine,
    report: { failed: () => undefined, defect: () => undefined, planned: () => undefined, stuck: () => undefined },
  };
}

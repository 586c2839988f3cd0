import { setTimeout as sleep } from "node:timers/promises";
import { throwFault } from "@muster/faults";
import { getOrigin } from "@muster/provision-engine/lease";
import type { Leftovers } from "@muster/provision-engine/cleaner";
import type { Workload } from "@muster/provision-engine/workload";
import type { World } from "./world.ts";

const MAX_PROVISION_MS = 3000;
const FAILURE_SHARE = 0.1;
const RETRY_MS = 500;

/** A workload type with one object in the cluster for each run of a lease. Provisioning takes time and may fail. */
export function makeSimWorkload(world: World, type: string): Workload {
  const { leaseObjects, network, weather, time } = world;
  return {
    type,
    provision: async (lease, signal) => {
      const { id, run } = getOrigin(lease);
      const existed = await network.call("api-server", `make ${id}-${run}`, () => {
        const key = `${id}-${run}`;
        if (leaseObjects.made.has(key)) return true;
        if (weather.random.chance(FAILURE_SHARE))
          throwFault({ code: "unavailable", dependency: "scheduler", retryAfterMs: RETRY_MS });
        leaseObjects.uids += 1;
        const object = { uid: `object-${leaseObjects.uids}`, lease: id, run, createdMs: time.nowMs };
        leaseObjects.made.set(key, object);
        for (const listener of leaseObjects.onMake) listener(object);
        return false;
      });
      if (!existed) await sleep(weather.random.integer(0, MAX_PROVISION_MS), undefined, { signal });
      return JSON.stringify({ of: lease.order.id });
    },
    decommission: (lease) => {
      const { id, run } = getOrigin(lease);
      return network.call("api-server", `remove ${id}-${run}`, () => {
        for (const [key, each] of leaseObjects.made)
          if (each.lease === id && each.run <= run) leaseObjects.made.delete(key);
      });
    },
  };
}

/** The objects in the cluster that clean-up finds. */
export function makeSimLeftovers({ leaseObjects, network }: World): Leftovers {
  const kind = "LeaseObject";
  return {
    find: (_signal, within) =>
      network.call("api-server", "list lease objects", () => {
        const made = within === undefined ? [...leaseObjects.made.values()] : [];
        const objects = made.map(({ uid, lease, run, createdMs }) => ({
          kind,
          namespace: "",
          name: `${lease}-${run}`,
          uid,
          createdMs,
          lease: { id: lease, run },
          otherInstallation: undefined,
          isTerminating: false,
        }));
        return { objects, unlisted: [] };
      }),
    inUse: () => Promise.resolve(new Set()),
    remove: async (object) => {
      if (object.kind !== kind) return;
      await network.call("api-server", `clean up ${object.name}`, () => {
        if (leaseObjects.made.get(object.name)?.uid === object.uid) leaseObjects.made.delete(object.name);
      });
    },
  };
}

import { setTimeout as sleep } from "node:timers/promises";
import { throwFault } from "@muster/faults";
import { originOf } from "@muster/provision-engine/lease";
import type { Leftovers } from "@muster/provision-engine/cleaner";
import type { Workload } from "@muster/provision-engine/workload";
import type { World } from "./world.ts";

const MAKING_MS_MOST = 3000;
const FAILS = 0.1;
const RETRY_MS = 500;

/** A type of workload that lives in the cluster: one thing for each run of a lease, which takes its time, and does not always succeed. */
export function simWorkload(world: World, type: string): Workload {
  const { things, network, weather, time } = world;
  return {
    type,
    provision: async (lease, signal) => {
      const { id, run } = originOf(lease);
      const isThere = await network.call("api-server", `make ${id}-${run}`, () => {
        const key = `${id}-${run}`;
        if (things.made.has(key)) return true;
        if (weather.random.chance(FAILS))
          throwFault({ code: "unavailable", dependency: "scheduler", retryAfterMs: RETRY_MS });
        things.uids += 1;
        const thing = { uid: `thing-${things.uids}`, lease: id, run, createdMs: time.nowMs };
        things.made.set(key, thing);
        for (const listener of things.onMake) listener(thing);
        return false;
      });
      if (!isThere) await sleep(weather.random.integer(0, MAKING_MS_MOST), undefined, { signal });
      return JSON.stringify({ of: lease.order.id });
    },
    decommission: (lease) => {
      const { id, run } = originOf(lease);
      return network.call("api-server", `remove ${id}-${run}`, () => {
        for (const [key, each] of things.made) if (each.lease === id && each.run <= run) things.made.delete(key);
      });
    },
  };
}

/** What clean-up finds of it. */
export function simLeftovers({ things, network }: World): Leftovers {
  const kind = "Thing";
  return {
    find: (_signal, within) =>
      network.call("api-server", "list things", () => {
        const made = within === undefined ? [...things.made.values()] : [];
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
        if (things.made.get(object.name)?.uid === object.uid) things.made.delete(object.name);
      });
    },
  };
}

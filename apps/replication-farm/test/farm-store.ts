import type { V1Pod } from "@kubernetes/client-node";
import type { NatsBus } from "@muster/bus";
import { buckets } from "@muster/proto";
import { openBucket, type Bucket } from "@muster/store";
import { until } from "@muster/testkit";
import { setCodec, type StoredValue } from "../src/adapters/messages.ts";
import { makeSet } from "./a-set.ts";
import { buildPodName, type ReplicaSet } from "../src/domain/replica-set.ts";
import { buildTemplate, type FarmWorld } from "./farm-world.ts";

/** The records that farms write, read and changed here without running farms. */
export type FarmStore = {
  readonly sets: Bucket<StoredValue<ReplicaSet>, ReplicaSet>;
  /** Throws when the record is missing or unreadable. */
  set(name: string): Promise<ReplicaSet>;
  /** A set that no farm has seen yet; its pods are of its own name. */
  create(name: string, spec: Partial<ReplicaSet["spec"]>): Promise<void>;
  /** As a user's request does, without a farm that answers it. */
  change(name: string, change: (set: ReplicaSet) => ReplicaSet): Promise<void>;
  /** Ids of the live sessions of the farm with this process. */
  sessions(pid: number): Promise<string[]>;
};

export async function openFarmStore(bus: NatsBus): Promise<FarmStore> {
  const sets = await openBucket(bus.connection, { name: buckets.replicaSets, codec: setCodec });
  const text = {
    encode: (value: string) => new TextEncoder().encode(value),
    decode: (bytes: Uint8Array) => new TextDecoder().decode(bytes),
  };
  const locks = await openBucket(bus.connection, { name: buckets.farmLocks, codec: text });
  const entry = async (name: string) => {
    const found = await sets.get(name);
    if (found === undefined || "unreadable" in found.value) throw new Error(`there is no set ${name}`);
    return { record: found.value.record, revision: found.revision };
  };
  return {
    sets,
    set: async (name) => (await entry(name)).record,
    create: async (name, spec) => {
      const set = makeSet({ name, uid: `uid-${name}`, fence: 0, requestId: name });
      await sets.create(name, { ...set, spec: { ...set.spec, podId: name, template: buildTemplate(), ...spec } });
    },
    change: (name, change) =>
      until(`${name} is changed before others change it`, async () => {
        const { record, revision } = await entry(name);
        await sets.update(name, change(record), revision);
        return true;
      }).then(() => undefined),
    sessions: async (pid) =>
      (await locks.list("session.*")).flatMap(({ key, value }) => (value.includes(`-${pid}-`) ? [key] : [])),
  };
}

/** Waits until the set has so many places, and a pod that is ready in each of them, and no other pod. */
export function waitForPlaced(world: FarmWorld, store: FarmStore, name: string, count: number): Promise<V1Pod[]> {
  return until(
    `${name} has ${count} places and their pods`,
    async () => {
      const { placements } = await store.set(name);
      const pods = await world.pods(name);
      const wanted = placements.map(({ node, ordinal }) => `${buildPodName(name, ordinal)} on ${node}`).toSorted();
      const there = pods.filter(isReady).map(({ metadata, spec }) => `${metadata?.name} on ${spec?.nodeName}`);
      return placements.length === count && there.toSorted().join() === wanted.join() && pods.length === count && pods;
    },
    { timeoutMs: 90_000, everyMs: 100 },
  );
}

export function listUids(pods: readonly V1Pod[]): string[] {
  return pods.map(({ metadata }) => metadata?.uid ?? "").toSorted();
}

function isReady({ status }: V1Pod): boolean {
  return status?.conditions?.some(({ type, status: value }) => type === "Ready" && value === "True") === true;
}

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startFaultyApi, type FaultyApi } from "@muster/devcluster";
import { buckets, streams } from "@muster/proto";
import { openBucket, type Bucket } from "@muster/store";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { EMBEDDED } from "./api-servers.ts";
import { rolloutCodec, type StoredValue } from "../src/adapters/messages.ts";
import { makeRollout } from "./a-set.ts";
import { openFarmStore, waitForPlaced, listUids, type FarmStore } from "./farm-store.ts";
import { openFarmWorld, buildTemplate, type FarmProcess, type FarmWorld } from "./farm-world.ts";

const NODES = ["n-0", "n-1", "n-2", "n-3", "n-4"];
/** Longer than a busy machine pauses, so that a farm is lost only at a command of a test. */
const STEADY = { FARM_SESSION_TTL_MS: "10000" };
/** Longer than any client waits for an answer. */
const NEVER_MS = 600_000;

describe("lost farms", () => {
  let world: FarmWorld;
  let store: FarmStore;
  let api: FaultyApi;
  let directory: string;

  beforeAll(async () => {
    const server = await EMBEDDED.start();
    world = await openFarmWorld(server, NODES.length);
    directory = await mkdtemp(join(tmpdir(), "muster-lost-farms-"));
    api = await startFaultyApi({ kubeconfig: server.kubeconfig, directory, seed: 1 });
    store = await openFarmStore(world.bus);
  }, 300_000);

  afterAll(async () => {
    await api[Symbol.asyncDispose]();
    await world[Symbol.asyncDispose]();
    await rm(directory, { recursive: true, force: true });
  });

  const startFarm = async (who: string): Promise<FarmProcess> =>
    world.startFarm({ MUSTER_KUBECONFIG: await api.kubeconfigFor(who), ...STEADY });
  const label = (name: string): Promise<unknown> =>
    Promise.all(NODES.map((node) => world.label(node, { [name]: "y" })));
  const auditsThere = async (): Promise<number> => (await world.bus.streamState(streams.audit.name))?.messages ?? 0;
  const matched = async (rule: string): Promise<number> =>
    (await api.counters()).rules.find(({ id }) => id === rule)?.matched ?? 0;

  /** Who owns it by each of its records from now on, until it is stopped. */
  const follow = <Record extends { readonly fence: number }>(
    bucket: Pick<Bucket<StoredValue<Record>>, "watch">,
    name: string,
  ) => {
    const stop = new AbortController();
    const fences: number[] = [];
    const done = (async () => {
      for await (const change of bucket.watch({ filter: name, signal: stop.signal }))
        if (change.kind === "put" && "record" in change.entry.value) fences.push(change.entry.value.record.fence);
    })();
    return {
      stop: async (): Promise<readonly number[]> => {
        stop.abort();
        await done;
        return fences;
      },
    };
  };

  it.each(["SIGKILL", "SIGSTOP"] as const)(
    "in the middle of a group of placements (%s) leave the rest to another farm, which creates each pod once",
    async (signal) => {
      const name = signal.toLowerCase();
      const sleeper = await startFarm(name);
      await label(name);
      await api.inject(
        { id: "writes", match: { who: [name], verbs: ["create", "delete"] }, fault: { do: "delay", ms: 1 } },
        { id: "late", match: { who: [name], verbs: ["create"] }, fault: { do: "delay", ms: NEVER_MS }, times: 3 },
      );
      await store.create(name, { nodeSelector: `${name}=y`, replicasDesired: 5 });
      await until("two pods of five are made", async () => (await world.pods(name)).length === 2, {
        timeoutMs: 90_000,
      });
      const before = await store.sessions(sleeper.pid);
      process.kill(sleeper.pid, signal);
      const wrote = await matched("writes");

      const other = await startFarm("other");
      const uids = listUids(await waitForPlaced(world, store, name, 5));
      const { placements, nextOrdinal, fence } = await store.set(name);
      expect(placements.map(({ node }) => node)).toEqual(NODES);
      expect(nextOrdinal).toBe(6);
      if (signal === "SIGSTOP") {
        const seen = follow(store.sets, name);
        process.kill(sleeper.pid, "SIGCONT");
        await until("it has noticed that it was lost, and starts over", async () => {
          const sessions = await store.sessions(sleeper.pid);
          return sessions.some((each) => !before.includes(each));
        });
        expect(await matched("writes")).toBe(wrote);
        await store.change(name, (set) => ({ ...set, spec: { ...set.spec, replicasDesired: 4 } }));
        await other.stop();
        const after = listUids(await waitForPlaced(world, store, name, 4));
        expect(uids).toEqual(expect.arrayContaining(after));
        expectNoneBelow(fence, await seen.stop());
      } else await other.stop();
      await sleeper.kill();
      await api.remove();
    },
    300_000,
  );

  it("in the middle of a rolling update (SIGSTOP) leave it to another farm, and write to it no more", async () => {
    const rolls = await openBucket(world.bus.connection, { name: buckets.rolls, codec: rolloutCodec });
    const read = async () => {
      const found = await rolls.get("is");
      return found !== undefined && "record" in found.value ? { ...found, roll: found.value.record } : undefined;
    };
    const sleeper = await startFarm("roller");
    await label("rolled");
    await store.create("was", { nodeSelector: "rolled=y", replicasDesired: 4 });
    await waitForPlaced(world, store, "was", 4);
    await api.inject({
      id: "late",
      match: { who: ["roller"], verbs: ["create"] },
      fault: { do: "delay", ms: NEVER_MS },
    });
    await store.create("is", { nodeSelector: "rolled=y", podId: "was", template: buildTemplate("2") });
    // The second step is due long after the test.
    const counts = { oldDesired: 4, newDesired: 0, target: 4, undoTarget: 4, minimum: 3, delayMs: NEVER_MS };
    await rolls.create(
      "is",
      makeRollout({ id: "is", oldSet: "was", newSet: "is", phase: "CREATING", fence: 0, ...counts }),
    );
    await until("an old pod is gone, and the new one is not made", async () => {
      return (await matched("late")) >= 1 && (await world.pods("was")).length === 3;
    });
    const before = await store.sessions(sleeper.pid);
    const fence = (await read())?.roll.fence ?? 0;
    process.kill(sleeper.pid, "SIGSTOP");

    const other = await startFarm("other");
    await until("another runs it", async () => ((await read())?.roll.fence ?? 0) > fence, { timeoutMs: 90_000 });
    const names = ["was", "is"];
    const placed = () => Promise.all([waitForPlaced(world, store, "was", 3), waitForPlaced(world, store, "is", 1)]);
    const pods = (await placed()).map(listUids);
    const atRest = [(await read())?.roll, ...(await Promise.all(names.map((name) => store.set(name))))];
    const seen = [follow(rolls, "is"), ...names.map((name) => follow(store.sets, name))];
    process.kill(sleeper.pid, "SIGCONT");
    await until("it has noticed that it was lost, and starts over", async () => {
      const sessions = await store.sessions(sleeper.pid);
      return sessions.some((each) => !before.includes(each));
    });
    expect((await placed()).map(listUids)).toEqual(pods);
    expect(await read()).toMatchObject({ roll: { oldDesired: 3, newDesired: 1, phase: "RUNNING" } });
    await api.remove();
    await until("the update may continue", async () => {
      const found = await read();
      if (found !== undefined) await rolls.update("is", { ...found.roll, delayMs: 0 }, found.revision);
      return found?.revision;
    });
    await until("the update has ended", async () => (await rolls.get("is")) === undefined, { timeoutMs: 90_000 });
    await waitForPlaced(world, store, "is", 4);
    for (const [index, { stop }] of seen.entries()) expectNoneBelow(atRest[index]?.fence ?? 0, await stop());
    await Promise.all([sleeper, other].map((farm) => farm.kill()));
  }, 300_000);

  it("by SIGKILL have their sets taken over by another farm, with no other change", async () => {
    const farms = [await world.startFarm(), await world.startFarm()];
    await label("kept");
    await store.create("kept", { nodeSelector: "kept=y", replicasDesired: 3 });
    const uids = listUids(await waitForPlaced(world, store, "kept", 3));
    await until("all audits are on their stream", async () =>
      (await store.sets.list()).every(({ value }) => "record" in value && value.record.outbox.length === 0),
    );
    const owner = await until("one of them owns it, and reports it", async () => {
      const { set } = await world.farms.getReplicaSet({ name: "kept" }, { timeoutMs: 2000 });
      return farms.find(({ pid }) => set?.farm.includes(`-${pid}-`));
    });
    const before = { set: await store.set("kept"), audits: await auditsThere() };
    await owner.kill();
    const after = await until("another has it", async () => {
      const taken = await store.set("kept");
      return taken.fence > before.set.fence && taken;
    });
    expect({ ...after, fence: 0 }).toEqual({ ...before.set, fence: 0 });
    expect(listUids(await waitForPlaced(world, store, "kept", 3))).toEqual(uids);
    expect(await auditsThere()).toBe(before.audits);
    await Promise.all(farms.map((farm) => farm.kill()));
  }, 300_000);

  it("leave their share to the others, which rebalance it", async () => {
    const names = Array.from({ length: 60 }, (_, index) => `shared-${index}`);
    for (const name of names) await store.create(name, { nodeSelector: "nowhere=y" });
    const farms = [await world.startFarm(), await world.startFarm()];
    const sharedByAll = (sharers: readonly FarmProcess[]): Promise<unknown> =>
      until(
        `${sharers.length} farms share all sets`,
        async () => {
          const { sets } = await world.farms.listReplicaSets({}, { timeoutMs: 2000 });
          const owners = sets.map(({ farm }) => sharers.find(({ pid }) => farm.includes(`-${pid}-`))?.pid);
          return (
            owners.length >= names.length && !owners.includes(undefined) && new Set(owners).size === sharers.length
          );
        },
        { timeoutMs: 60_000, everyMs: 100 },
      );
    await sharedByAll(farms);
    farms.push(...(await Promise.all([world.startFarm(), world.startFarm(), world.startFarm()])));
    await sharedByAll(farms);
    await farms.shift()?.kill();
    await sharedByAll(farms);
    await Promise.all(farms.map((farm) => farm.kill()));
  }, 300_000);
});

/** Each write is by the owner of then or by a later one. */
function expectNoneBelow(fence: number, fences: readonly number[]): void {
  expect(fences).toEqual(fences.toSorted((a, b) => a - b));
  expect(fences[0]).toBeGreaterThanOrEqual(fence);
}

import { FaultError } from "@muster/faults";
import { describe, expect, it } from "vitest";
import { buildPoolTroubles } from "../src/domain/build-pool-troubles.ts";
import { listInstances } from "../src/instance-lists.ts";
import type { NodeProvider } from "../src/providers/provider.ts";
import { buildInstance } from "./build-sightings.ts";
import { buildPolicy } from "./build-node.ts";
import { ZONE } from "../src/domain/may-accept.ts";
import { runHeartbeatRound } from "../src/rounds/heartbeat-round.ts";
import { runReaperRound } from "../src/rounds/reaper-round.ts";
import { runScanRound } from "../src/rounds/scan-round.ts";
import { finishRunningWork } from "../src/scaler.ts";
import { makeMemoryCloud } from "./memory-cloud.ts";
import { ScalerWorld } from "./scaler-world.ts";

const MINUTE = 60_000;

const phases = (world: ScalerWorld) => world.records().map(({ status }) => status.phase);

describe("a gang of four", () => {
  it("gets exactly four nodes, claims them, and leaves none behind", async () => {
    const world = new ScalerWorld(buildPolicy({ idleMs: MINUTE }));
    const gang = world.ledger.reserve("a", 4, world.nowMs);
    await world.run(MINUTE);
    expect(phases(world)).toEqual(["Claimed", "Claimed", "Claimed", "Claimed"]);
    expect(world.cloud.starts.size).toBe(4);
    world.reach(gang);
    await world.run(10 * MINUTE);
    expect(phases(world)).toHaveLength(4);

    world.release(gang);
    await world.run(30_000);
    expect(phases(world)).toEqual(["Available", "Available", "Available", "Available"]);
    await world.run(4 * MINUTE);
    expect([world.records(), [...world.cloud.instances], [...world.nodes]]).toEqual([[], [], []]);
    expect(world.cloud.starts.size).toBe(4);
    expect(world.problems).toEqual([]);
  });

  it("boots nothing if only a part of it could be created", async () => {
    const world = new ScalerWorld(buildPolicy({ max: 3 }));
    world.ledger.reserve("a", 4, world.nowMs);
    await world.run(MINUTE);
    expect(world.records()).toEqual([]);
    expect(["POOL_MAX", "GANG_INCOMPLETE"]).toContain(world.scaler.memory.plan?.waits[0]?.code);
  });
});

describe("a node that is temporarily unusable", () => {
  it("counts as booting since then, and not since its creation", async () => {
    const world = new ScalerWorld(buildPolicy({ healthyTimeoutMs: 10 * MINUTE }));
    const first = world.ledger.reserve("a", 1, world.nowMs);
    await world.run(20 * MINUTE);
    world.release(first);
    await world.run(MINUTE);
    for (const node of world.nodes.values()) node.ready = false;
    await world.run(10_000);
    world.ledger.reserve("a", 1, world.nowMs);
    await world.run(30_000);
    const { plan } = world.scaler.memory;
    expect(plan?.waits[0]?.message).toMatch(/^waiting for 1 node of type small, booting for [1-4]\d s$/);
    const sinceMs = plan?.poolScaling[0]?.booting[0]?.sinceMs ?? 0;
    expect(world.nowMs - sinceMs).toBeLessThan(MINUTE);
  });
});

describe("a gang in one zone", () => {
  const zones = ["a", "b"];

  it("gets nodes of one zone, although nodes of both zones are free", async () => {
    const world = new ScalerWorld(buildPolicy({ zones, idleMs: 60 * MINUTE }));
    const inZone = (zone: string) => ({
      terms: [{ matchExpressions: [{ key: ZONE, operator: "In", values: [zone] }] }],
      tolerations: [],
    });
    const before = zones.map((zone) => world.ledger.reserve("a", 2, world.nowMs, inZone(zone)));
    await world.run(2 * MINUTE);
    for (const id of before) world.release(id);
    await world.run(MINUTE);
    const gang = world.ledger.reserveTogether("a", 4, world.nowMs, ZONE);
    await world.run(2 * MINUTE);
    const names = world.ledger.reservations.get(gang)?.machines ?? [];
    expect(new Set(names.map((name) => world.nodes.get(name)?.labels[ZONE])).size).toBe(1);
    expect(names).toHaveLength(4);
    expect(world.cloud.starts.size).toBe(6);
    expect(world.problems).toEqual([]);
  });

  it("temporarily gets no further nodes in zones whose nodes turn out to have no label", async () => {
    const world = new ScalerWorld(buildPolicy({ zones, idleMs: MINUTE }));
    world.hasZoneLabels = false;
    world.ledger.reserveTogether("a", 2, world.nowMs, ZONE);
    await world.run(9 * MINUTE);
    expect(world.cloud.starts.size).toBe(4);
    expect(world.scaler.memory.plan?.waits).toMatchObject([{ code: "NODE_SELECTION" }]);
  });
});

describe("a job with a node selector", () => {
  const ssd = { terms: [{ matchExpressions: [{ key: "disk", operator: "In", values: ["ssd"] }] }], tolerations: [] };

  it("gets a new node beside a free one that it does not accept, although its label is configured nowhere", async () => {
    const world = new ScalerWorld(buildPolicy({ idleMs: 60 * MINUTE }));
    world.lateLabels = { disk: "hdd" };
    const first = world.ledger.reserve("a", 1, world.nowMs);
    await world.run(2 * MINUTE);
    world.release(first);
    await world.run(MINUTE);
    world.lateLabels = { disk: "ssd" };
    const second = world.ledger.reserve("a", 1, world.nowMs, ssd);
    await world.run(2 * MINUTE);
    expect(world.ledger.reservations.get(second)?.machines).toHaveLength(1);
    expect(world.cloud.starts.size).toBe(2);
    expect(world.problems).toEqual([]);
  });

  it("gets one node and temporarily no further ones if the node turns out not to match", async () => {
    const world = new ScalerWorld(buildPolicy({ idleMs: MINUTE }));
    world.ledger.reserve("a", 1, world.nowMs, ssd);
    await world.run(9 * MINUTE);
    expect(world.cloud.starts.size).toBe(1);
    expect(world.scaler.memory.plan?.waits).toMatchObject([{ code: "NODE_SELECTION" }]);
    await world.run(5 * MINUTE);
    expect(world.cloud.starts.size).toBe(2);
  });

  it("gets no node in a pool whose configured labels it does not accept", async () => {
    const world = new ScalerWorld(buildPolicy({ labels: { disk: "hdd" } }));
    world.ledger.reserve("a", 1, world.nowMs, ssd);
    await world.run(MINUTE);
    expect(world.cloud.starts.size).toBe(0);
    const message = "1 node needed: pool a declares the label disk=hdd, which does not match disk=ssd";
    expect(world.scaler.memory.plan?.waits).toMatchObject([{ code: "NODE_SELECTION", message }]);
  });
});

describe("nodes with taints of the cloud", () => {
  const taints = [{ key: "gpu", effect: "NoSchedule" }];
  const selection = { terms: [], tolerations: [{ key: "gpu", operator: "Exists" }] };

  it("serve a job that tolerates the taint, if the pool declares it", async () => {
    const world = new ScalerWorld(buildPolicy({ taints, idleMs: MINUTE }));
    world.cloudTaints = taints;
    const job = world.ledger.reserve("a", 2, world.nowMs, selection);
    world.ledger.reserve("a", 1, world.nowMs);
    await world.run(10 * MINUTE);
    expect(phases(world)).toEqual(["Claimed", "Claimed"]);
    world.reach(job);
    await world.run(MINUTE);
    world.release(job);
    const next = world.ledger.reserve("a", 1, world.nowMs, selection);
    await world.run(4 * MINUTE);
    expect(world.ledger.reservations.get(next)?.machines).toHaveLength(1);
    expect(phases(world)).toEqual(["Claimed"]);
    expect(world.cloud.starts.size).toBe(2);
    expect(world.problems).toEqual([]);
  });

  it.each([
    ["gpu:NoSchedule", {}, {}],
    [
      "gpu=present:NoSchedule",
      { value: "present" },
      { taints, selection: { terms: [], tolerations: [{ key: "gpu" }] } },
    ],
  ])("are unhealthy if the pool does not declare it, and the message names %s", async (text, value, declared) => {
    const { taints, selection } = { selection: undefined, taints: [], ...declared };
    const world = new ScalerWorld(buildPolicy({ taints }));
    world.cloudTaints = [{ key: "gpu", effect: "NoSchedule", ...value }];
    world.ledger.reserve("a", 1, world.nowMs, selection);
    await world.run(50_000);
    const message = `is ready and CORDONED for the ledger: its pool does not declare the taint ${text}`;
    expect(world.records()[0]?.status.trouble).toEqual({ code: "NOT_OFFERED", message });
    await world.run(2 * MINUTE);
    expect(world.cloud.starts.size).toBeGreaterThan(1);
  });
});

it("labels its nodes with the record, the pool and its own name", async () => {
  const world = new ScalerWorld(buildPolicy({ labels: { team: "x" } }));
  world.ledger.reserve("a", 1, world.nowMs);
  await world.run(20_000);
  const [name = ""] = world.cloud.starts.keys();
  const own = { pool: "a", "muster.dev/node": name, "muster.dev/scaler": "muster" };
  expect([...world.cloud.instances.values()].map(({ boot }) => boot.labels)).toEqual([{ team: "x", ...own }]);
});

it("keeps every instance whose pool and provider are no longer configured, until they are again", async () => {
  const policy = buildPolicy({ idleMs: 0 });
  const world = new ScalerWorld(policy);
  const job = world.ledger.reserve("a", 2, world.nowMs);
  await world.run(MINUTE);
  world.reach(job);
  world.policies = new Map();
  world.isConfigured = false;
  world.restart();
  await world.run(10 * MINUTE);
  expect([phases(world), world.cloud.instances.size]).toEqual([["Claimed", "Claimed"], 2]);
  world.policies = new Map([["a", policy]]);
  world.isConfigured = true;
  world.restart();
  world.release(job);
  await world.run(5 * MINUTE);
  expect([world.records(), world.cloud.instances.size]).toEqual([[], 0]);
  expect(world.problems).toEqual([]);
});

it("keeps the standby, and returns to it when no further nodes are needed", async () => {
  const standby = [{ instanceType: "small", count: 2, spot: false }];
  const world = new ScalerWorld(buildPolicy({ idleMs: 0, standby }));
  await world.run(MINUTE);
  expect(phases(world)).toEqual(["Available", "Available"]);
  const job = world.ledger.reserve("a", 4, world.nowMs);
  await world.run(2 * MINUTE);
  expect(phases(world).filter((phase) => phase === "Claimed")).toHaveLength(4);
  world.release(job);
  await world.run(3 * MINUTE);
  expect(phases(world)).toEqual(["Available", "Available"]);
  expect(world.problems).toEqual([]);
});

it("ends used nodes of a pool with `reuse: false`, and no node that no pod reached", async () => {
  const world = new ScalerWorld(buildPolicy({ reuse: false }));
  const [used, unused] = [world.ledger.reserve("a", 1, world.nowMs), world.ledger.reserve("a", 1, world.nowMs)];
  await world.run(MINUTE);
  world.reach(used);
  await world.run(10_000);
  world.release(used);
  world.release(unused);
  await world.run(2 * MINUTE);
  expect(phases(world)).toEqual(["Available"]);
});

it("remembers that a node was used when it is granted again during its cleaning, and then ends it", async () => {
  const world = new ScalerWorld(buildPolicy({ reuse: false, idleMs: 60 * MINUTE }));
  const first = world.ledger.reserve("a", 1, world.nowMs);
  await world.run(MINUTE);
  world.reach(first);
  await world.round("heartbeat");
  world.release(first);
  await world.round("heartbeat");
  expect(phases(world)).toEqual(["Cleaning"]);
  const second = world.ledger.reserve("a", 1, world.nowMs);
  world.ledger.grant();
  await world.round("heartbeat");
  expect(phases(world)).toEqual(["Available"]);
  await world.round("heartbeat");
  expect(world.records()[0]?.status).toMatchObject({ phase: "Claimed", claim: { reached: true } });
  world.release(second);
  await world.run(3 * MINUTE);
  expect(world.records()).toEqual([]);
});

it("boots no node in place of a node that was just released, in whatever second that was", async () => {
  const starts: number[] = [];
  for (let second = 0; second < 35; second += 1) {
    const world = new ScalerWorld(buildPolicy({ max: 20 }));
    const first = world.ledger.reserve("a", 4, world.nowMs);
    let passed = 0;
    await world.run(3 * MINUTE, () => {
      passed += 1;
      if (passed === 70 + second) world.reach(first);
      if (passed === 90 + second) {
        world.release(first);
        world.ledger.reserve("a", 6, world.nowMs);
      }
    });
    starts.push(world.cloud.starts.size);
  }
  expect(new Set(starts)).toEqual(new Set([6]));
});

describe("a provider that does not answer", () => {
  const never = () => new Promise<never>(() => undefined);
  const mute: NodeProvider = {
    name: "mute",
    fixedSizeVolumes: false,
    start: never,
    stop: never,
    list: never,
    findImage: never,
    checkPool: never,
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };

  it("delays no node of another provider: it boots, is claimed and ends in its usual rounds", async () => {
    const days = [false, true].map(async (withMute) => {
      const standby = [{ instanceType: "small", count: 1, spot: false }];
      const other = buildPolicy({ name: "b", provider: "mute", standby });
      const world = new ScalerWorld(buildPolicy({ idleMs: 0 }), ...(withMute ? [other] : []));
      if (withMute) world.others.set("mute", mute);
      world.restart();
      const job = world.ledger.reserve("a", 2, world.nowMs);
      const seen: string[] = [];
      const note = () => seen.push(phases(world).join());
      await world.run(MINUTE, note);
      world.release(job);
      await world.run(2 * MINUTE, note);
      expect(world.cloud.starts.size).toBe(2);
      return seen;
    });
    const [alone, beside] = await Promise.all(days);
    expect(alone).toContain("Claimed,Claimed");
    expect(alone?.at(-1)).toBe("");
    expect(beside).toEqual(alone);
  });

  it("has its last list used for a while, and after that nothing concluded from it", async () => {
    const world = new ScalerWorld(buildPolicy());
    const job = world.ledger.reserve("a", 1, world.nowMs);
    await world.run(MINUTE);
    world.reach(job);
    const { provider } = world.cloud;
    const providers = new Map([["cloud", { ...provider, list: never, stop: never }]]);
    const blind = { ...world.scaler, providers };
    const before = await listInstances(blind, "scan");
    expect([before.all.length, [...before.silent]]).toEqual([1, []]);
    world.nowMs += world.scaler.listFreshMs + 1;
    const after = await listInstances(blind, "scan");
    expect([after.all, [...after.silent]]).toEqual([[], ["cloud"]]);
  });

  it("does not delay the end of other providers' nodes while it stops one of its own", async () => {
    const world = new ScalerWorld(
      buildPolicy({ idleMs: 0, max: 20 }),
      buildPolicy({ name: "b", provider: "slow", idleMs: 0, max: 20 }),
    );
    const slow = makeMemoryCloud({ name: "slow", now: () => world.nowMs });
    world.others.set("slow", { ...slow.provider, stop: never });
    world.restart();
    for (const pool of ["a", "b"]) world.ledger.reserve(pool, 20, world.nowMs);
    await world.run(20_000);
    for (const id of [...world.ledger.reservations.keys()]) world.release(id);
    await world.run(5 * MINUTE);
    expect(new Set(world.records().map(({ spec }) => spec.pool))).toEqual(new Set(["b"]));
    expect(world.cloud.instances.size).toBe(0);
  });
});

describe("a cloud that fails", () => {
  it("gets a request for another type during a shortage of the first, which is not requested for ten minutes", async () => {
    const types = ["small", "large"].map((name) => ({ name, cpuMilli: 1, memoryBytes: 1, gpus: 0 }));
    const world = new ScalerWorld(buildPolicy({ instanceTypes: types }));
    world.cloud.faults.short = { times: 100, instanceTypes: ["small"] };
    world.ledger.reserve("a", 1, world.nowMs);
    await world.run(MINUTE);
    expect([...world.cloud.instances.values()].map(({ boot }) => boot.instanceType)).toEqual(["large"]);
    expect(world.cloud.starts.size).toBe(2);
  });

  it("gets requests at growing intervals", async () => {
    const world = new ScalerWorld(buildPolicy());
    world.cloud.faults.startFails = 1000;
    world.ledger.reserve("a", 1, world.nowMs);
    await world.run(10 * MINUTE);
    expect(world.cloud.starts.size).toBeLessThanOrEqual(7);
    expect(world.cloud.starts.size).toBeGreaterThanOrEqual(4);
    world.cloud.faults.startFails = 0;
    await world.run(10 * MINUTE);
    expect(phases(world)).toEqual(["Claimed"]);
  });

  it("gets requests at growing intervals for instances that start and become no nodes", async () => {
    const world = new ScalerWorld(buildPolicy());
    world.bootMs = Infinity;
    world.ledger.reserve("a", 4, world.nowMs);
    await world.run(10 * MINUTE, () => {
      for (const instance of world.cloud.instances.values()) instance.failure = "a bad image";
    });
    expect(world.cloud.starts.size).toBeLessThanOrEqual(28);
    expect(world.cloud.starts.size).toBeGreaterThanOrEqual(16);
  });

  it("gets a request for another type if instances of the first become no nodes", async () => {
    const types = ["small", "large"].map((name) => ({ name, cpuMilli: 1, memoryBytes: 1, gpus: 0 }));
    const world = new ScalerWorld(buildPolicy({ instanceTypes: types, bootTimeoutMs: MINUTE }));
    world.ledger.reserve("a", 1, world.nowMs);
    await world.run(3 * MINUTE, () => {
      for (const instance of world.cloud.instances.values()) instance.joins = instance.boot.instanceType === "large";
    });
    expect(world.records().map(({ spec, status }) => [spec.instanceType, status.phase])).toEqual([
      ["large", "Claimed"],
    ]);
    expect(world.cloud.starts.size).toBe(2);
  });

  it("gets no request during the pause that it requests", async () => {
    const world = new ScalerWorld(buildPolicy());
    world.ledger.reserve("a", 1, world.nowMs);
    world.cloud.faults.rateLimited = { times: 1, retryAfterMs: 4 * MINUTE };
    await world.run(4 * MINUTE);
    expect(world.cloud.starts.size).toBe(1);
    await world.run(2 * MINUTE);
    expect(phases(world)).toEqual(["Claimed"]);
  });

  it("gets the stop again if it had no effect", async () => {
    const world = new ScalerWorld(buildPolicy({ idleMs: 0 }));
    const job = world.ledger.reserve("a", 1, world.nowMs);
    await world.run(MINUTE);
    world.cloud.faults.stopForgotten = 3;
    world.release(job);
    await world.run(5 * MINUTE);
    expect([world.records(), [...world.cloud.instances]]).toEqual([[], []]);
  });

  it("gets repeated stops if it refuses, and the record states the reason", async () => {
    const world = new ScalerWorld(buildPolicy({ idleMs: 0 }));
    const job = world.ledger.reserve("a", 1, world.nowMs);
    await world.run(MINUTE);
    world.cloud.faults.stopFails = Infinity;
    world.cloud.faults.listsNothing = Infinity;
    world.release(job);
    await world.run(10 * MINUTE);
    const refused = expect.stringContaining("i-1") as string;
    expect(world.records()).toMatchObject([
      { status: { phase: "Terminating", trouble: { code: "STOP_FAILED", message: refused } } },
    ]);
    world.cloud.faults.stopFails = 0;
    await world.run(3 * MINUTE);
    expect([world.records(), [...world.cloud.instances]]).toEqual([[], []]);
  });

  it("gets a stop for an instance that it created although it had reported a failure", async () => {
    const world = new ScalerWorld(buildPolicy());
    world.cloud.faults.answerLost = 1;
    world.ledger.reserve("a", 1, world.nowMs);
    await world.run(3 * MINUTE);
    expect(phases(world)).toEqual(["Claimed"]);
    expect(world.cloud.instances.size).toBe(1);
  });

  it("gets a stop for an instance that reappeared, in the second scan", async () => {
    const world = new ScalerWorld(buildPolicy({ idleMs: 0 }));
    const job = world.ledger.reserve("a", 1, world.nowMs);
    await world.run(MINUTE);
    const [[id, zombie] = []] = [...world.cloud.instances];
    world.release(job);
    await world.run(3 * MINUTE);
    if (id === undefined || zombie === undefined) throw new Error("there was no instance");
    world.cloud.instances.set(id, zombie);
    await world.run(30_000);
    expect(world.cloud.instances.size).toBe(1);
    await world.run(5 * MINUTE);
    expect([[...world.cloud.instances], [...world.nodes]]).toEqual([[], []]);
  });

  it("gets an order for another node in place of a vanished one", async () => {
    const standby = [{ instanceType: "small", count: 1, spot: false }];
    const world = new ScalerWorld(buildPolicy({ standby, healthyTimeoutMs: 60 * MINUTE }));
    await world.run(MINUTE);
    world.cloud.instances.clear();
    await world.run(5 * MINUTE);
    expect(phases(world)).toEqual(["Available"]);
    expect(world.cloud.instances.size).toBe(1);
  });

  it("ends no node by an empty list while the machines are ready", async () => {
    const world = new ScalerWorld(buildPolicy());
    const job = world.ledger.reserve("a", 2, world.nowMs);
    await world.run(MINUTE);
    world.reach(job);
    world.cloud.faults.listsNothing = Infinity;
    await world.run(5 * MINUTE);
    expect(phases(world)).toEqual(["Claimed", "Claimed"]);
    expect(world.cloud.instances.size).toBe(2);
    expect(world.cloud.starts.size).toBe(2);
  });
});

it("creates nothing and treats no instance as an orphan while records may be missing", async () => {
  const world = new ScalerWorld(buildPolicy());
  await world.round("heartbeat");
  world.ledger.reserve("a", 1, world.nowMs);
  world.viewAgeMs = 1;
  for (const loop of ["pool", "scan"] as const)
    await expect(world.round(loop)).rejects.toThrow("the view of the records of nodes is not available");
  expect(world.cloud.starts.size).toBe(0);
  world.viewAgeMs = 0;
  await world.round("pool");
  expect(world.cloud.starts.size).toBe(1);
});

it("creates nothing and ends no boot while the watcher is silent", async () => {
  const world = new ScalerWorld(buildPolicy());
  const first = world.ledger.reserve("a", 1, world.nowMs);
  await world.run(20_000);
  world.isWatcherSilent = true;
  world.ledger.reserve("a", 4, world.nowMs);
  await world.run(20 * MINUTE);
  expect([phases(world), world.cloud.starts.size]).toEqual([["Created"], 1]);
  world.isWatcherSilent = false;
  await world.run(2 * MINUTE);
  expect(world.ledger.reservations.get(first)?.machines).toHaveLength(1);
  expect([phases(world).length, world.cloud.starts.size]).toEqual([5, 5]);
});

it("ends a node that never joins, and creates another", async () => {
  const world = new ScalerWorld(buildPolicy());
  world.ledger.reserve("a", 1, world.nowMs);
  await world.run(10_000);
  for (const instance of world.cloud.instances.values()) instance.joins = false;
  await world.run(5 * MINUTE);
  expect(world.records().map(({ spec }) => spec.terminate?.code)).toContain("BOOT_TIMEOUT");
  await world.run(3 * MINUTE);
  expect(phases(world)).toEqual(["Claimed"]);
});

it.each([
  ["as spot, with the next heartbeat", true, 10_000],
  ["on demand, with the next scan", false, 70_000],
])("ends a node that the provider is about to reclaim %s, and replaces it", async (_, spot, withinMs) => {
  const standby = [{ instanceType: "small", count: 1, spot }];
  const world = new ScalerWorld(buildPolicy({ standby }));
  await world.run(70_000);
  for (const instance of world.cloud.instances.values()) instance.lostAtMs = world.nowMs + 10 * MINUTE;
  const [first] = world.records();
  await world.run(withinMs);
  expect(world.records()[0]?.spec.terminate?.code).toBe("SPOT_NOTICE");
  await world.run(2 * MINUTE);
  expect(phases(world)).toEqual(["Available"]);
  expect(world.records()[0]?.name).not.toBe(first?.name);
});

it.each([
  ["before", 60 * MINUTE],
  ["back", -60 * MINUTE],
])("gives the pods on a node the time of the notice, even if the clock was set %s", async (_, aheadMs) => {
  const standby = [{ instanceType: "small", count: 1, spot: true }];
  const world = new ScalerWorld(buildPolicy({ standby }));
  await world.run(70_000);
  world.wallAheadMs = aheadMs;
  for (const instance of world.cloud.instances.values()) instance.lostAtMs = world.nowMs + aheadMs + MINUTE;
  await world.round("heartbeat");
  expect(world.records()[0]?.spec.terminate).toMatchObject({
    code: "SPOT_NOTICE",
    atMs: world.nowMs,
    drainUntilMs: world.nowMs + MINUTE,
  });
});

it("evicts the other pods of a node if one cannot be evicted", async () => {
  const world = new ScalerWorld(buildPolicy({ drainTimeoutMs: 10 * MINUTE }));
  const job = world.ledger.reserve("a", 1, world.nowMs);
  await world.run(MINUTE);
  world.reach(job);
  const [name = ""] = world.ledger.reservations.get(job)?.machines ?? [];
  world.pods.set(
    name,
    ["stuck", "free"].map((uid) => ({ namespace: "default", name: uid, uid, owner: undefined, deleting: false })),
  );
  const evicted: string[] = [];
  const failed: string[] = [];
  const { cluster, report } = world.scaler;
  const evict = ({ uid }: { readonly uid: string }) => {
    evicted.push(uid);
    return uid === "stuck" ? Promise.reject(new Error("no")) : Promise.resolve(undefined);
  };
  for (const instance of world.cloud.instances.values()) instance.lostAtMs = world.nowMs + 5 * MINUTE;
  await world.round("scan");
  await world.round("heartbeat");
  const scaler = {
    ...world.scaler,
    cluster: { ...cluster, evict },
    report: { ...report, failed: (_: string, doing: string) => void failed.push(doing) },
  };
  await runReaperRound(scaler);
  await world.scaler.memory.ending.get(world.records()[0]?.name ?? "");
  expect(evicted).toEqual(["stuck", "free"]);
  expect(failed).toEqual([expect.stringContaining("evicting default/stuck from"), expect.stringContaining("draining")]);
});

/** Starts a drain whose two pods may not be evicted, until they are removed from `refusals`. */
async function stalledDrain() {
  const world = new ScalerWorld(buildPolicy({ drainTimeoutMs: 10 * MINUTE }));
  const job = world.ledger.reserve("a", 1, world.nowMs);
  await world.run(MINUTE);
  world.reach(job);
  const [name = ""] = world.ledger.reservations.get(job)?.machines ?? [];
  const pods = ["one", "two"].map((uid) => ({
    namespace: "default",
    name: uid,
    uid,
    owner: undefined,
    deleting: false,
  }));
  const setPods = (deleting: boolean): void => {
    world.pods.set(
      name,
      pods.map((pod) => ({ ...pod, deleting })),
    );
  };
  setPods(false);
  const refusals = new Map([
    ["one", "the disruption budget db needs 1 healthy pods and has 1 currently"],
    ["two", "busy"],
  ]);
  const failed: string[] = [];
  const { cluster, report } = world.scaler;
  const scaler = {
    ...world.scaler,
    cluster: { ...cluster, evict: ({ uid }: { readonly uid: string }) => Promise.resolve(refusals.get(uid)) },
    report: { ...report, failed: (_: string, doing: string) => void failed.push(doing) },
  };
  const reap = async () => {
    await runReaperRound(scaler);
    await world.scaler.memory.ending.get(world.records()[0]?.name ?? "");
    const status = world.records()[0]?.status;
    return [status?.phase, status?.trouble?.message];
  };
  for (const instance of world.cloud.instances.values()) instance.lostAtMs = world.nowMs + 5 * MINUTE;
  await world.round("scan");
  await world.round("heartbeat");
  const stalls = "the drain stalls: pod default/one is not evicted: the disruption budget db needs 1 healthy pods";
  expect(await reap()).toEqual(["Claimed", `${stalls} and has 1 currently, and 1 more pods stay`]);
  return { world, setPods, refusals, failed, reap };
}

describe("the reason of a stalled drain", () => {
  it("is in the record while the drain stalls, and is reported once", async () => {
    const { refusals, failed, reap } = await stalledDrain();
    expect(await reap()).toEqual(["Claimed", expect.stringContaining("the drain stalls")]);
    expect(failed).toHaveLength(1);
    refusals.clear();
    expect(await reap()).toEqual(["Claimed", undefined]);
  });

  it("is removed after another client has deleted the pods", async () => {
    const { setPods, reap } = await stalledDrain();
    setPods(true);
    expect(await reap()).toEqual(["Claimed", undefined]);
  });

  it("does not replace another trouble of the node when the drain proceeds", async () => {
    const { world, refusals, reap } = await stalledDrain();
    const [node] = world.records();
    const trouble = { code: "STOP_FAILED", message: "the provider is silent" } as const;
    await world.scaler.records.changeNode({ node: node?.name ?? "", expected: "Claimed", status: { trouble } });
    refusals.clear();
    expect(await reap()).toEqual(["Claimed", "the provider is silent"]);
  });

  it("is removed after the time of the drain", async () => {
    const { world, reap } = await stalledDrain();
    world.nowMs += 11 * MINUTE;
    expect(await reap()).toEqual(["Terminating", undefined]);
  });
});

it("boots the rest of a gang as large as its pool, if a foreign pod is on one node", async () => {
  const world = new ScalerWorld(buildPolicy({ max: 3, idleMs: 0 }));
  const one = world.ledger.reserve("a", 1, world.nowMs);
  await world.run(MINUTE);
  const [name = ""] = world.ledger.reservations.get(one)?.machines ?? [];
  world.release(one);
  world.pods.set(name, [{ namespace: "default", name: "web", uid: "u", owner: undefined, deleting: false }]);
  await world.run(MINUTE);
  expect(phases(world)).toEqual(["Available"]);
  const gang = world.ledger.reserve("a", 3, world.nowMs);
  await world.run(MINUTE);
  expect(world.ledger.reservations.get(gang)?.machines).toContain(name);
  expect(world.records()).toHaveLength(3);
  expect(world.problems).toEqual([]);
});

/** Builds a world in which the provider has one instance without a record. */
function orphanWorld(stop: NodeProvider["stop"]) {
  const world = new ScalerWorld(buildPolicy());
  const [name, provider] = [...world.scaler.providers][0] ?? [];
  if (name === undefined || provider === undefined) throw new Error("there is no provider");
  const orphan = buildInstance("", { instanceId: "i-orphan" });
  const list = () => Promise.resolve([orphan]);
  const providers = new Map<string, NodeProvider>([[name, { ...provider, stop, list }]]);
  return { world, scaler: { ...world.scaler, providers } };
}

it("requests the stop of an orphan once from a provider that does not answer, however many scans find it", async () => {
  const answer = Promise.withResolvers<undefined>();
  const stopped: string[] = [];
  const { world, scaler } = orphanWorld(({ instanceId }) => {
    stopped.push(instanceId);
    return answer.promise;
  });
  for (let scan = 0; scan < 5; scan += 1) {
    await runScanRound(scaler);
    world.nowMs += MINUTE;
  }
  expect(stopped).toEqual(["i-orphan"]);
  expect(scaler.memory.scanning.size).toBe(1);
  answer.resolve(undefined);
  await finishRunningWork(scaler.memory);
  world.nowMs += MINUTE;
  await runScanRound(scaler);
  expect(stopped).toEqual(["i-orphan", "i-orphan"]);
});

it("pauses the stop of an orphan for as long as the refusing provider requests", async () => {
  const retryAfterMs = 10 * MINUTE;
  let stops = 0;
  const { world, scaler } = orphanWorld(() => {
    stops += 1;
    return Promise.reject(new FaultError({ code: "unavailable", dependency: "cloud", retryAfterMs }));
  });
  for (let scan = 0; scan < 11; scan += 1) {
    await runScanRound(scaler);
    await finishRunningWork(scaler.memory);
    world.nowMs += MINUTE;
  }
  expect(stops).toBe(1);
  await runScanRound(scaler);
  expect(stops).toBe(2);
});

it("finishes a step of a scan that takes longer than its round waits", async () => {
  const answer = Promise.withResolvers<undefined>();
  const { world, scaler } = orphanWorld(() => answer.promise);
  await runScanRound(scaler);
  world.nowMs += MINUTE;
  await runScanRound(scaler);
  expect(scaler.memory.scanning.size).toBe(1);
  const order: string[] = [];
  const finished = finishRunningWork(scaler.memory).then(() => order.push("work is finished"));
  order.push("the provider answers");
  answer.resolve(undefined);
  await finished;
  expect(order).toEqual(["the provider answers", "work is finished"]);
  expect(scaler.memory.scanning.size).toBe(0);
});

it("names the provider of a node that does not end because the provider is no longer configured", async () => {
  const world = new ScalerWorld(buildPolicy({ idleMs: 0 }));
  const job = world.ledger.reserve("a", 1, world.nowMs);
  await world.run(MINUTE);
  world.cloud.faults.stopForgotten = 1000;
  world.release(job);
  await world.run(30_000);
  expect(phases(world)).toEqual(["Terminating"]);
  world.isConfigured = false;
  world.restart();
  await world.run(30_000);
  expect(world.records()[0]?.status).toMatchObject({
    phase: "Terminating",
    trouble: {
      code: "PROVIDER_MISSING",
      message: "provider cloud is no longer in the file of pools, and may still have the instance",
    },
  });
});

it("cordons the second of two names under which a node has joined, and creates no other node", async () => {
  const standby = [{ instanceType: "small", count: 1, spot: false }];
  const world = new ScalerWorld(buildPolicy({ standby }));
  await world.run(MINUTE);
  const [node] = [...world.nodes.values()];
  if (node === undefined) throw new Error("no node has joined");
  world.nodes.set("k-second", { ...node, name: "k-second" });
  await world.run(3 * MINUTE);
  expect(world.nodes.get("k-second")?.cordoned).toBe(true);
  expect(world.nodes.get(node.name)?.cordoned).toBe(false);
  expect(world.cloud.starts.size).toBe(1);
});

it("never stops a node that was granted after it was listed as surplus", async () => {
  const world = new ScalerWorld(
    buildPolicy({ idleMs: 0, standby: [{ instanceType: "small", count: 1, spot: false }] }),
  );
  await world.run(MINUTE);
  world.scaler.memory.booting.clear();
  const [record] = world.records();
  world.policies = new Map([["a", buildPolicy({ idleMs: 0 })]]);
  world.restart();
  await world.round("heartbeat");
  await world.round("pool");
  await world.round("pool");
  expect(world.records()[0]?.spec.terminate?.code).toBe("IDLE");
  world.ledger.reserve("a", 1, world.nowMs);
  world.ledger.grant();
  await world.run(2 * MINUTE);
  expect(world.records().map(({ name, status }) => [name, status.phase])).toEqual([[record?.name, "Claimed"]]);
  expect(world.problems).toEqual([]);
});

it("keeps a node that another client has cordoned, and creates another in its place", async () => {
  const standby = [{ instanceType: "small", count: 1, spot: false }];
  const world = new ScalerWorld(buildPolicy({ standby, idleMs: 0 }));
  await world.run(MINUTE);
  const [node] = [...world.nodes.values()];
  if (node === undefined) throw new Error("no node has joined");
  node.cordoned = true;
  const pod = { namespace: "d", name: "others", uid: "u", owner: undefined, deleting: false };
  world.pods.set(node.name, [pod]);
  await world.run(10 * MINUTE);
  expect([phases(world), world.cloud.starts.size]).toEqual([["Available", "Available"], 2]);
  expect(world.pods.get(node.name)).toEqual([pod]);
  const [first] = world.records().filter(({ status }) => status.kubernetesNode === node.name);
  expect(first?.status.trouble?.message).toContain("another client has cordoned it");
  const job = world.ledger.reserve("a", 2, world.nowMs);
  await world.run(MINUTE);
  expect(world.ledger.reservations.get(job)?.machines).not.toContain(node.name);
  world.release(job);
  world.pods.clear();
  node.cordoned = false;
  await world.run(5 * MINUTE);
  expect([phases(world), world.records()[0]?.status.trouble]).toEqual([["Available"], undefined]);
});

it("uncordons a node whose end it withdraws, although the watcher has not reported the cordon yet", async () => {
  const world = new ScalerWorld(buildPolicy({ idleMs: MINUTE }));
  const first = world.ledger.reserve("a", 1, world.nowMs);
  await world.run(MINUTE);
  world.release(first);
  await world.run(10_000);
  world.nowMs += 2 * MINUTE;
  await world.round("pool");
  expect(world.records()[0]?.spec.terminate?.code).toBe("IDLE");
  await world.round("reaper");
  expect([...world.nodes.values()].map(({ cordoned }) => cordoned)).toEqual([true]);
  const second = world.ledger.reserve("a", 1, world.nowMs);
  world.ledger.grant();
  await world.round("reaper");
  expect([...world.nodes.values()].map(({ cordoned }) => cordoned)).toEqual([false]);
  expect(world.ledger.reservations.get(second)?.machines).toHaveLength(1);
  expect(world.records()[0]?.spec.terminate).toBeUndefined();
});

it("ends Creating nodes of an earlier leader, and continues with Created ones", async () => {
  const world = new ScalerWorld(buildPolicy());
  world.ledger.reserve("a", 2, world.nowMs);
  // Both records are written, and the provider has answered one of the boots.
  world.killAfter(3);
  await world.round("pool");
  await world.run(3 * MINUTE);
  expect(phases(world)).toEqual(["Claimed", "Claimed"]);
  expect(world.cloud.instances.size).toBe(2);
  expect(world.problems).toEqual([]);
});

it("continues with Cleaning nodes of an earlier leader", async () => {
  const world = new ScalerWorld(buildPolicy());
  const holder = world.ledger.reserve("a", 1, world.nowMs);
  await world.run(MINUTE);
  world.reach(holder);
  await world.run(10_000);
  world.ledger.release(holder);
  await world.run(5000);
  expect(phases(world)).toEqual(["Cleaning"]);
  world.restart();
  await world.run(5000);
  expect(phases(world)).toEqual(["Cleaning"]);
  world.pods.clear();
  await world.run(10_000);
  expect(phases(world)).toEqual(["Available"]);
  expect(world.cloud.starts.size).toBe(1);
});

describe("the memory of a pool in trouble", () => {
  const troublesOf = ({ scaler }: ScalerWorld) =>
    buildPoolTroubles({ ...scaler.memory, policies: scaler.policies, nowMs: scaler.now() });

  it("has instances that never join, until one does", async () => {
    const world = new ScalerWorld(buildPolicy({ bootTimeoutMs: MINUTE }));
    world.bootMs = Infinity;
    world.ledger.reserve("a", 1, world.nowMs);
    await world.run(3 * MINUTE);
    expect(troublesOf(world)).toMatchObject([{ pool: "a", code: "BOOT_TIMEOUT", instanceType: "small" }]);
    world.bootMs = 1000;
    await world.run(5 * MINUTE);
    expect(troublesOf(world)).toEqual([]);
  });

  it("has ready nodes that the ledger never offers, and creates them at growing intervals", async () => {
    const world = new ScalerWorld(buildPolicy({ max: 4 }));
    world.ledger.reserve("a", 4, world.nowMs);
    await world.run(60 * MINUTE, () => {
      for (const node of world.nodes.values()) node.tainted = true;
    });
    expect(troublesOf(world)).toMatchObject([{ pool: "a", code: "UNHEALTHY", instanceType: "small" }]);
    // Without a pause there would be twice as many.
    expect(world.cloud.starts.size).toBeLessThanOrEqual(52);
  });

  it("has standby nodes whose kubelets fail after their first ready state, and creates them at growing intervals", async () => {
    const world = new ScalerWorld(buildPolicy({ standby: [{ instanceType: "small", count: 1, spot: false }] }));
    await world.run(60 * MINUTE, () => {
      for (const node of world.nodes.values()) node.ready = node.hasStartupTaint;
    });
    expect(troublesOf(world)).toMatchObject([{ pool: "a", code: "UNHEALTHY", instanceType: "small" }]);
    expect(world.cloud.starts.size).toBeLessThanOrEqual(13);
  });

  it("counts a failed boot once, however often the write of its end failed", async () => {
    const world = new ScalerWorld(buildPolicy({ bootTimeoutMs: MINUTE }));
    world.bootMs = Infinity;
    world.ledger.reserve("a", 1, world.nowMs);
    await world.run(30_000);
    const { records } = world.scaler;
    const broken = { ...records, changeNode: () => Promise.reject(new Error("the store is away")) };
    world.nowMs += MINUTE;
    for (let round = 1; round <= 3; round += 1) await runHeartbeatRound({ ...world.scaler, records: broken });
    expect(troublesOf(world)).toEqual([]);
    await world.round("heartbeat");
    expect(troublesOf(world)).toMatchObject([{ code: "BOOT_TIMEOUT", boots: 1 }]);
  });

  it("has a provider that does not answer, until it does", async () => {
    const world = new ScalerWorld(buildPolicy());
    world.cloud.faults.listFails = 1;
    await world.round("scan");
    expect(troublesOf(world)).toMatchObject([
      { pool: "a", code: "PROVIDER_FAILED", message: "cloud is not available", sinceMs: world.nowMs },
    ]);
    await world.round("scan");
    expect(troublesOf(world)).toEqual([]);
  });
});

it("keeps the startup taint of a node that joins after the end of its boot, so that it is not granted", async () => {
  const world = new ScalerWorld(buildPolicy());
  world.cloud.faults.stopForgotten = 1000;
  world.ledger.reserve("a", 1, world.nowMs);
  await world.run(10_000);
  const [late] = [...world.cloud.instances.values()];
  if (late === undefined) throw new Error("there is no instance");
  late.joins = false;
  await world.run(6 * MINUTE);
  late.joins = true;
  const name = `k-${late.boot.nodeName}`;
  await world.run(2 * MINUTE);
  expect(world.nodes.get(name)).toMatchObject({ ready: true, hasStartupTaint: true });
  expect(world.ledger.holderOf(name)).toBeUndefined();
  expect(phases(world)).toContain("Claimed");
});

it("creates another node for a demand whose node the ledger does not offer", async () => {
  const world = new ScalerWorld(buildPolicy());
  const job = world.ledger.reserve("a", 1, world.nowMs);
  await world.run(25_000);
  world.ledger.grant = () => undefined;
  await world.run(20_000);
  for (const node of world.nodes.values()) node.tainted = true;
  world.watch();
  Reflect.deleteProperty(world.ledger, "grant");
  await world.run(4 * MINUTE);
  expect(world.cloud.starts.size).toBe(2);
  expect(world.ledger.reservations.get(job)?.machines).toHaveLength(1);
});

it("creates nothing before a new leader has observed everything once", async () => {
  const world = new ScalerWorld(buildPolicy());
  world.ledger.reserve("a", 1, world.nowMs);
  await world.round("pool");
  expect(world.records()).toEqual([]);
  world.cloud.faults.listFails = 1;
  await world.round("heartbeat");
  await world.round("pool");
  expect(world.records()).toEqual([]);
  await world.round("heartbeat");
  await world.round("pool");
  expect(world.records()).toHaveLength(1);
});

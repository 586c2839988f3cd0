import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { CoreV1Api } from "@kubernetes/client-node";
import { type MachineControls, makeRemoteMachineControls } from "@muster/devcluster";
import { loadKube } from "@muster/kube";
import { labels } from "@muster/proto";
import { makeKubeClient, until } from "@muster/testkit";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { ELASTIC, type Elastic } from "../src/elastic.ts";
import { startMuster } from "./muster-run.ts";
import {
  buildElasticSession,
  listEventNames,
  expectNothingLeft,
  isFinished,
  startWorld,
  submitSession,
  waitForSession,
  type World,
} from "./stack-world.ts";

const PATIENCE = { timeoutMs: 120_000, everyMs: 50 };
const GONE_SOON: Elastic = { ...ELASTIC, pools: ELASTIC.pools.map((pool) => ({ ...pool, idle: "3s" })) };

describe("a stack with an elastic pool", { timeout: 600_000 }, () => {
  let world: World;
  let cloud: MachineControls;
  let api: CoreV1Api;
  beforeAll(async () => {
    world = await startWorld({ elastic: GONE_SOON, pools: { drivers: 1 } });
    const { url = "", tokenFile = "" } = world.stack.cloud ?? {};
    cloud = makeRemoteMachineControls({ url, token: await readFile(tokenFile, "utf8") });
    api = makeKubeClient(loadKube(world.stack.kubeconfig), CoreV1Api, { timeoutMs: 60_000 });
  });
  afterAll(() => world[Symbol.asyncDispose]());
  beforeEach(async () => {
    await cloud.remove();
    await expectEmptyPool();
  });

  const machinesNow = async (): Promise<number> => {
    const { launched, gone } = await cloud.counters();
    return launched - gone;
  };
  /** Waits until the cloud has no machine, the cluster no node of one, and the ledger an empty pool. */
  const expectEmptyPool = async (): Promise<void> => {
    await until("the cloud has no machine", async () => (await machinesNow()) === 0, PATIENCE);
    await until(
      "the cluster has no node of a machine",
      async () => (await api.listNode({ labelSelector: labels.scaledNode })).items.length === 0,
      PATIENCE,
    );
    await expectNothingLeft(world);
    await until("the ledger has an empty pool", async () => {
      const { pools } = await world.ledger.listPools({});
      const { capacity, elasticMax } = pools.find(({ name }) => name === "elastic") ?? {};
      return capacity === 0 && elasticMax === 8;
    });
  };
  const launchedBy = async (work: () => Promise<void>): Promise<number> => {
    const before = (await cloud.counters()).launched;
    await work();
    return (await cloud.counters()).launched - before;
  };

  it("boots exactly the four machines that a session needs, and ends them afterwards", async () => {
    const launched = await launchedBy(async () => {
      await submitSession(world, "four", buildElasticSession(0.5));
      const session = await waitForSession(world, "four", "is finished", isFinished);
      expect(listEventNames(session).at(-1)).toBe("DONE");
      expect(JSON.parse(session.resultJson)).toEqual({ workers: 4 });
    });
    expect(launched).toBe(4);
    await expectEmptyPool();
  });

  it("boots exactly the four machines of a job's gang", async () => {
    const file = join(world.stack.kubeconfig, "../job.yaml");
    const containers = [{ name: "main", image: "node:24-bookworm-slim", command: ["node", "-e", "0"] }];
    const worker = { replicas: 4, pool: "elastic", template: { spec: { containers } } };
    const job = {
      apiVersion: "muster.dev/v1",
      kind: "Job",
      metadata: { name: "gang" },
      spec: { replicaSpecs: { worker } },
    };
    await writeFile(file, stringify(job));
    const launched = await launchedBy(async () => {
      const { code, output } = await startMuster(world, file);
      expect(code, output).toBe(0);
    });
    expect(launched).toBe(4);
    await expectEmptyPool();
  });

  it("leaks no machine and boots none twice when the node-scaler is killed during a boot", async () => {
    // The cloud is slow: it creates machines that the restarted scaler does not know.
    await cloud.inject({ id: "slow", match: { calls: ["create"] }, fault: { do: "delay", ms: 700 }, times: 4 });
    const before = (await cloud.counters()).launched;
    await submitSession(world, "killed", buildElasticSession(0.5));
    await until("a boot is under way", async () => ((await cloud.counters()).rules[0]?.injected ?? 0) > 0, PATIENCE);
    const scaler = world.stack.replicas.find(({ service }) => service === "node-scaler");
    await scaler?.kill(100);
    const session = await waitForSession(world, "killed", "is finished", isFinished);
    expect(listEventNames(session).at(-1)).toBe("DONE");
    // Machines of the killed scaler may be created again under other names, but at most once.
    expect((await cloud.counters()).launched - before).toBeLessThanOrEqual(8);
    await expectEmptyPool();
  });
});

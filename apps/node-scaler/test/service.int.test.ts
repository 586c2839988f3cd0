import { findFault } from "@muster/faults";
import { muster } from "@muster/proto";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openElasticWorld, MAX, type ElasticWorld, type Replica } from "./elastic-world.ts";

let world: ElasticWorld;
let first: Replica;
let second: Replica;
let third: Replica;

beforeAll(async () => {
  world = await openElasticWorld({ idle: "2s", drainTimeout: "5s" });
  first = await world.startScaler();
}, 400_000);
afterAll(() => world[Symbol.asyncDispose]());

/** Returns the records that have not ended, from every page. */
async function liveNodes(limit = 0) {
  const { NODE_PHASE_TERMINATED } = muster.node.v1.NodePhase;
  const found = [];
  for (let after = ""; ;) {
    const page = await world.nodes.listNodes({ limit, continue: after });
    found.push(...page.nodes.filter(({ phase }) => phase !== NODE_PHASE_TERMINATED));
    after = page.continue;
    if (after === "") return found;
  }
}

const untilNothingIsLeft = () =>
  until("no node is left", async () => world.machines().length === 0 && (await world.kubeNodes()).length === 0, {
    timeoutMs: 120_000,
  });

describe("the node scaler, with the ledger and the watcher", () => {
  it("creates exactly four nodes for a gang of four, and keeps none after their use", async () => {
    const reservation = await world.reserve("gang", 4);
    const granted = await world.untilGranted("gang");
    expect(granted).toHaveLength(4);
    await until("the nodes are claimed", async () => {
      const nodes = await liveNodes();
      return nodes.length === 4 && nodes.every(({ holder }) => holder?.id === "gang");
    });
    expect(world.machines()).toHaveLength(4);
    await world.release("gang", reservation);
    await untilNothingIsLeft();
  }, 400_000);

  it("explains a request, and lists its loops and its nodes", async () => {
    const reservation = await world.reserve("explained", 6);
    const explained = await until("the nodes boot", async () => {
      const reply = await world.nodes.explainDemand({ owner: { kind: "lease", id: "explained" } });
      return reply.known && reply;
    });
    expect(["BOOTING", "GANG_INCOMPLETE", "POOL_MAX"]).toContain(explained.code);
    await world.untilGranted("explained");
    const dump = await world.nodes.dumpNodes({});
    expect(dump.loops.map(({ name }) => name)).toEqual(["pool", "heartbeat", "reaper", "scan"]);
    expect(dump.pools).toMatchObject([{ pool: "elastic", max: 6 }]);
    expect(await liveNodes(1)).toHaveLength(6);
    await world.release("explained", reservation);
  }, 400_000);

  it("shows in `muster explain` the number and type of the nodes that boot for the waiting owner, and since when", async () => {
    await untilNothingIsLeft();
    await world.slowBoots(3_600_000);
    const reservation = await world.reserve("slow", 2);
    const explanation = await until(
      "it says that they boot",
      async () => {
        const text = await world.muster("explain", "lease/slow");
        return /^nodes: .*booting.*$/m.exec(text)?.[0];
      },
      { timeoutMs: 120_000 },
    );
    expect(explanation).toMatch(/^nodes: waiting for 2 nodes of type small, booting for \d+ s$/);
    await world.slowBoots(undefined);
    await world.release("slow", reservation);
    await untilNothingIsLeft();
  }, 400_000);

  it("ends a node on request, and reports an unknown one", async () => {
    const reservation = await world.reserve("asked", 1);
    await world.untilGranted("asked");
    const held = await until("the node is claimed", async () =>
      (await liveNodes()).find(({ holder }) => holder?.id === "asked"),
    );
    await world.nodes.terminateNode({ requestId: "t", name: held.name });
    await until("its machine is gone", () => !world.machines().includes(held.name), {
      timeoutMs: 120_000,
    });
    const missing = await world.nodes.terminateNode({ requestId: "u", name: "none" }).catch((error: unknown) => error);
    expect(findFault(missing)).toMatchObject({ code: "not_found", kind: "node", id: "none" });
    await world.release("asked", reservation);
    await untilNothingIsLeft();
  }, 400_000);

  it("refuses a request beyond the maximum of the pool immediately, even without a node, and boots the maximum", async () => {
    await untilNothingIsLeft();
    const tooMany = { code: "pool_capacity", pool: "elastic", requested: MAX + 1, capacity: MAX };
    await expect(world.reserve("too-large", MAX + 1)).rejects.toMatchObject({ fault: tooMany });
    const reservation = await world.reserve("most", MAX);
    expect(await world.untilGranted("most")).toHaveLength(MAX);
    await expect(world.reserve("too-large", MAX + 1)).rejects.toMatchObject({ fault: tooMany });
    await world.release("most", reservation);
    await untilNothingIsLeft();
  }, 400_000);

  it("checks a job against the maximum of its pool, and creates the nodes of one that fits", async () => {
    const jobs = await world.startJobs();
    const manifest = (replicas: number): string => {
      // The job runs until it is ended, because the nodes of a job that fails immediately are held only briefly.
      const template = { spec: { containers: [{ name: "main", image: "i", command: ["simulate"] }] } };
      const spec = { replicaSpecs: { worker: { pool: "elastic", replicas, template } } };
      return JSON.stringify({ apiVersion: "muster.dev/v1", kind: "Job", metadata: { name: "grows" }, spec });
    };
    const [problem] = (await jobs.checkJob({ manifestJson: manifest(MAX + 1) })).problems;
    expect(problem?.reason).toMatch(`pool elastic has ${MAX} machines at most, ${MAX + 1} are needed`);
    expect((await jobs.checkJob({ manifestJson: manifest(MAX) })).problems).toEqual([]);
    expect(await liveNodes()).toEqual([]);

    const { job } = await jobs.submitJob({ requestId: "s", manifestJson: manifest(2) });
    await until(
      "the job holds two nodes",
      async () => (await liveNodes()).filter(({ holder }) => holder?.id === job?.ownerId).length === 2,
      { timeoutMs: 240_000 },
    );
    await jobs.cancelJob({ requestId: "c", key: { kind: "Job", name: "grows" } });
    await untilNothingIsLeft();
  }, 480_000);

  it("continues in another replica when the leader is killed during a boot", async () => {
    second = await world.startScaler();
    const reservation = await world.reserve("survivor", 4);
    await until("nodes are being created", () => world.machines().length > 0, {
      timeoutMs: 90_000,
      everyMs: 5,
    });
    await first.kill();
    expect(await world.untilGranted("survivor")).toHaveLength(4);
    await world.release("survivor", reservation);
    await untilNothingIsLeft();
    await until("every record has ended", async () => (await liveNodes()).length === 0);
  }, 400_000);

  it("continues in another replica while the leader is frozen, which starts nothing when it resumes", async () => {
    third = await world.startScaler();
    const { leader } = await world.nodes.dumpNodes({});
    second.freeze();
    const reservation = await world.reserve("beside-frozen", 2);
    // The first answer may arrive before the new leader orders a node.
    await until("the nodes are listed", async () => /NAME/.test(await world.muster("nodes")), { timeoutMs: 120_000 });
    expect(await world.untilGranted("beside-frozen")).toHaveLength(2);
    expect((await world.nodes.dumpNodes({})).leader).not.toBe(leader);
    second.resume();
    // An orderly end proves that it has resumed.
    await second.stop();
    expect(world.machines()).toHaveLength(2);
    // The scaler records a grant in its next heartbeat round.
    await until("both nodes are claimed", async () => {
      const nodes = await liveNodes();
      return nodes.length === 2 && nodes.every(({ holder }) => holder?.id === "beside-frozen");
    });
    expect(world.machines()).toHaveLength(2);
    await world.release("beside-frozen", reservation);
    await untilNothingIsLeft();
  }, 400_000);

  it("finishes the order of a machine when it is stopped, and the next leader continues with the node", async () => {
    await world.slowOrders(1500);
    const reservation = await world.reserve("during-stop", 1);
    const node = await until("a node is ordered", async () =>
      (await liveNodes()).find(({ boundTo }) => boundTo !== ""),
    );
    await world.startScaler();
    await third.stop();
    await world.slowOrders(undefined);
    await world.untilGranted("during-stop");
    expect((await liveNodes()).map(({ name }) => name)).toEqual([node.name]);
    await world.release("during-stop", reservation);
    await untilNothingIsLeft();
  }, 400_000);
});

import type { V1Node, V1Pod } from "@kubernetes/client-node";
import type { NatsBus } from "@muster/bus";
import type { KubeCalls } from "@muster/kube";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { API_SERVERS } from "./api-servers.ts";
import { openContractLedger, type ContractLedger } from "./contract-ledger.ts";
import { openJobWorld, type JobWorld, type TestJob } from "./job-world.ts";

const EXCLUSIVE = "muster.dev/exclusive";
const ANNOTATIONS = { "muster.dev/sharing": "shared" };
const REQUESTS = { cpu: "300m", memory: "64Mi" };
const SHARE = { cpu: 300, memory: 64 * 2 ** 20 };

const NODES = { apiVersion: "v1", plural: "nodes" };

/** Builds a job with workers that runs until it is cancelled. */
function job(
  name: string,
  replicas: number,
  annotations: Record<string, string> = {},
  { pool = "workers", image = "node" }: { readonly pool?: string; readonly image?: string } = {},
): TestJob {
  const container = { name: "main", image, command: ["sleep", "600"], resources: { requests: REQUESTS } };
  const template = { spec: { containers: [container] } };
  return {
    apiVersion: "muster.dev/v1",
    kind: "Job",
    metadata: { name, annotations },
    spec: { replicaSpecs: { worker: { replicas, pool, template } } },
  };
}

/** Lists the nodes on which pods can be placed. */
async function nodesOf(calls: KubeCalls): Promise<{ name: string; pool: string }[]> {
  const { items } = await calls.list<V1Node>(NODES);
  return items
    .filter(({ spec }) => spec?.unschedulable !== true)
    .map(({ metadata }) => ({ name: metadata?.name ?? "", pool: metadata?.labels?.["pool"] ?? "" }));
}

const labelsOf = (pods: readonly V1Pod[]) => pods.map(({ metadata }) => metadata?.labels?.[EXCLUSIVE]);

for (const server of API_SERVERS) {
  describe.skipIf(server.skip)(`jobs that share machines, under ${server.title}`, { timeout: 240_000 }, () => {
    let world: JobWorld;
    let ledger: ContractLedger;

    beforeAll(async () => {
      const openLedger = async (bus: NatsBus, calls: KubeCalls): Promise<AsyncDisposable> => {
        ledger = await openContractLedger(bus, () => nodesOf(calls));
        return ledger;
      };
      world = await openJobWorld(await server.start(), { workers: 1, spares: 2 }, { openLedger });
      await world.startController({ JOB_NODE_LOST_MS: "500" });
    }, 240_000);

    afterAll(() => world[Symbol.asyncDispose]());

    const cancel = (name: string) => world.jobs.cancelJob({ requestId: name, key: { name } });

    it("run all members on one node, beside another job that shares it, and exclude a job that requests it whole", async () => {
      await world.create(job("together", 2, ANNOTATIONS));
      await world.create(job("beside", 1, ANNOTATIONS));
      await world.untilCondition("together", "Running");
      await world.untilCondition("beside", "Running");
      const running = async (): Promise<V1Pod[] | false> => {
        const pods = [...(await world.pods("together")), ...(await world.pods("beside"))];
        return pods.length === 3 && pods.every(({ status }) => status?.phase === "Running") && pods;
      };
      const pods = await until("all members run", running, { timeoutMs: 60_000 });
      expect(new Set(pods.map(({ spec }) => spec?.nodeName)).size).toBe(1);
      expect(labelsOf(pods)).toEqual(["false", "false", "false"]);

      const { reservations } = await world.ledger.listReservations({ ownerKind: "job" });
      expect(reservations.flatMap(({ needs }) => needs.map(({ shared }) => shared?.requests))).toEqual([
        ...[SHARE, SHARE],
        SHARE,
      ]);
      const { job: shown } = await world.jobs.getJob({ key: { name: "together" } });
      expect(shown?.members.map(({ shared }) => shared?.requests)).toEqual([SHARE, SHARE]);
      expect(shown?.conditions.find(({ type }) => type === "MachinesReserved")?.message).toBe(
        "2 parts of machines are reserved",
      );

      await world.create(job("whole", 1));
      const isWaiting = async (): Promise<boolean> => {
        const conditions = (await world.get("whole"))?.status?.conditions ?? [];
        return conditions.some(({ type, status }) => type === "MachinesReserved" && status === "False");
      };
      await until("the other job waits", isWaiting, { timeoutMs: 60_000 });
      expect(await world.pods("whole")).toEqual([]);
      await cancel("together");
      await cancel("beside");
      await world.untilCondition("whole", "Running");
      expect(labelsOf(await world.pods("whole"))).toEqual(["true"]);
      await cancel("whole");
      await world.untilNothingLeft("whole");
    });

    it("keep their pods and parts when the annotation is edited, even to an invalid value", async () => {
      await world.create(job("edited", 1, ANNOTATIONS));
      await world.untilCondition("edited", "Running");
      await world.patch("edited", { metadata: { annotations: { "muster.dev/sharing": "exclusive" } } });
      const [before] = await world.pods("edited");
      await world.patch("edited", { metadata: { annotations: { "muster.dev/sharing": "half" } } });
      await world.untilCondition("edited", "SpecUnreadable");
      const [after] = await world.pods("edited");
      expect(after?.metadata?.uid).toBe(before?.metadata?.uid);
      expect(labelsOf([after ?? {}])).toEqual(["false"]);
      const wrong: unknown = expect.stringContaining(
        "metadata.annotations.muster.dev/sharing: must be one of shared, exclusive",
      );
      await until("the wrong value has an event", async () => {
        const { events } = await world.jobs.listJobEvents({ key: { name: "edited" } });
        return events.some(({ type, reason, message }) => {
          return type === "Warning" && reason === "InvalidSpec" && message.includes("muster.dev/sharing");
        });
      });
      const { job: seen } = await world.jobs.getJob({ key: { name: "edited" } });
      expect(seen).toMatchObject({ state: "RUNNING", waitingBecause: wrong });
      const { explanation } = await world.jobs.explainJob({ key: { name: "edited" } });
      expect(explanation?.reasons[0]).toMatchObject({ code: "SPEC_UNREADABLE", message: wrong });
      await cancel("edited");
      await world.untilNothingLeft("edited");
    });

    it("get another part for a member that cannot be placed, while the others continue on the cordoned node", async () => {
      await world.create(job("moved", 2, ANNOTATIONS, { pool: "spares" }));
      await world.untilCondition("moved", "Running");
      const placesOf = async (): Promise<readonly string[]> => {
        const pods = (await world.pods("moved")).filter(({ status }) => status?.phase === "Running");
        return pods.map(({ metadata, spec }) => `${metadata?.name} on ${spec?.nodeName}`).sort();
      };
      const before = await until("both run", async () => {
        const places = await placesOf();
        return places.length === 2 && places;
      });
      const [node = ""] = before.map((place) => place.split(" on ")[1]);
      expect(before).toEqual([`moved-worker-0 on ${node}`, `moved-worker-1 on ${node}`]);
      await world.calls.patch(NODES, node, { kind: "merge", body: { spec: { unschedulable: true } } });
      await world.calls.delete({ apiVersion: "v1", plural: "pods", namespace: "default" }, "moved-worker-1");
      const hasMoved = async (): Promise<boolean> => {
        const [stays = "", moved = ""] = await placesOf();
        return stays === `moved-worker-0 on ${node}` && moved !== "" && !moved.endsWith(` on ${node}`);
      };
      await until("the member has moved", hasMoved, { timeoutMs: 60_000 });
      await cancel("moved");
      await world.untilNothingLeft("moved");
      await world.calls.patch(NODES, node, { kind: "merge", body: { spec: { unschedulable: false } } });
    });

    it("have no pod beside an exclusive one of another job, even if the ledger granted that", async () => {
      ledger.ignoreHolders();
      const isUnschedulable = async (name: string): Promise<boolean> => {
        const [pod] = await world.pods(name);
        const placed = pod?.status?.conditions?.find(({ type }) => type === "PodScheduled");
        return placed?.status === "False" && placed.reason === "Unschedulable";
      };
      for (const [first, second] of [[{}, ANNOTATIONS] as const, [ANNOTATIONS, {}] as const]) {
        await world.create(job("first", 1, first));
        await world.untilCondition("first", "Running");
        await world.create(job("second", 1, second));
        await until("the second job has no pod", () => isUnschedulable("second"), { timeoutMs: 60_000 });
        await cancel("second");
        await cancel("first");
        await world.untilNothingLeft("first");
        await world.untilNothingLeft("second");
        for (const name of ["first", "second"]) await world.remove(name);
        const isGone = async (): Promise<boolean> =>
          (await Promise.all([world.pods("first"), world.pods("second")])).flat().length === 0;
        await until("both are gone", isGone, { timeoutMs: 60_000 });
      }
    });
  });

  describe.skipIf(server.skip)(`jobs that share machines of the real ledger, under ${server.title}`, () => {
    let world: JobWorld;

    beforeAll(async () => {
      world = await openJobWorld(await server.start(), { workers: 2 });
      await world.startController();
    }, 240_000);

    afterAll(() => world[Symbol.asyncDispose]());

    it("run on one machine if both members fit, and count as its holders", { timeout: 240_000 }, async () => {
      await world.create(job("together", 2, ANNOTATIONS));
      await world.untilCondition("together", "Running");
      const { reservations } = await world.ledger.listReservations({ ownerKind: "job" });
      const machines = reservations.flatMap((each) => each.machines);
      expect(machines.map(({ shared }) => shared?.requests)).toEqual([expect.anything(), expect.anything()]);
      expect(labelsOf(await world.pods("together"))).toEqual(["false", "false"]);
      const [node = ""] = machines.map((machine) => machine.node);
      expect(machines.map((machine) => machine.node)).toEqual([node, node]);
      const listed = (await world.ledger.listMachines({})).machines.find((machine) => machine.node === node);
      expect(listed).toMatchObject({ standing: "SHARED", sharedHolders: [{ owner: { kind: "job" }, machines: 2 }] });
      await world.jobs.cancelJob({ requestId: "over", key: { name: "together" } });
      await world.untilNothingLeft("together");
    });

    it(
      "get a part of another machine for a member that its node rejects, uncounted",
      { timeout: 240_000 },
      async () => {
        const pods = { apiVersion: "v1", plural: "pods", namespace: "default" };
        // Its container never starts, as that of a rejected pod.
        await world.create(job("rejected", 1, ANNOTATIONS, { image: "missing.invalid/image:1" }));
        const before = await until("the pod is on a node", async () => {
          const [pod] = await world.pods("rejected");
          return pod?.spec?.nodeName !== undefined && pod;
        });
        const node = before.spec?.nodeName ?? "";
        const status = { phase: "Failed", reason: "OutOfcpu", message: "Node didn't have enough resource: cpu" };
        const patch = { kind: "merge", body: { status: { ...status, containerStatuses: null } } } as const;
        await world.calls.patch(pods, before.metadata?.name ?? "", patch, { subresource: "status" });
        const moved = async (): Promise<boolean> => {
          const [pod] = await world.pods("rejected");
          return pod?.spec?.nodeName !== undefined && pod.spec.nodeName !== node;
        };
        await until("its pod is on the other node", moved, { timeoutMs: 60_000 });
        expect((await world.jobs.getJob({ key: { name: "rejected" } })).job).toMatchObject({ restarts: 0 });
        await world.jobs.cancelJob({ requestId: "rejected", key: { name: "rejected" } });
        await world.untilNothingLeft("rejected");
      },
    );
  });
}

const [embedded] = API_SERVERS;
describe("a job whose machine a foreign pod occupies", { timeout: 240_000 }, () => {
  let world: JobWorld;
  /** The ledger of this test does not follow the watcher: no part of this node is granted. */
  let taken = "";

  beforeAll(async () => {
    const openLedger = (bus: NatsBus, calls: KubeCalls) =>
      openContractLedger(bus, async () => (await nodesOf(calls)).filter(({ name }) => name !== taken));
    world = await openJobWorld(await embedded.start(), { workers: 2 }, { openLedger });
    await world.startController({ JOB_REPLACEMENT_WAIT_MS: "8000", JOB_EXPLAIN_EVERY_MS: "0", JOB_REFRESH_MS: "1000" });
  }, 240_000);

  afterAll(() => world[Symbol.asyncDispose]());

  it("names the pod, and gets a replacement for its member, uncounted", async () => {
    const pods = { apiVersion: "v1", plural: "pods", namespace: "default" };
    await world.create(job("crowded", 1, ANNOTATIONS));
    await world.untilCondition("crowded", "Running");
    const [before] = await world.pods("crowded");
    const node = before?.spec?.nodeName ?? "";
    taken = node;
    const { status } = await world.calls.get<V1Node>(NODES, node);
    const cpu = status?.allocatable?.["cpu"] ?? "";
    const container = { name: "main", image: "node", command: ["sleep", "600"], resources: { requests: { cpu } } };
    const spec = { nodeName: node, containers: [container] };
    await world.calls.create(pods, { metadata: { name: "web", namespace: "default" }, spec });
    await world.calls.delete(pods, before?.metadata?.name ?? "");
    await until("the condition names the foreign pod", async () => {
      const conditions = (await world.get("crowded"))?.status?.conditions ?? [];
      return conditions.some(({ type, message = "" }) => {
        return type === "PodsWaiting" && message.includes(node) && message.includes("default/web");
      });
    });
    const moved = await until("the member has another machine", async () => {
      const [after] = await world.pods("crowded");
      return after?.status?.phase === "Running" && after.spec?.nodeName !== node && after;
    });
    expect(moved.spec?.nodeName).not.toBe("");
    expect((await world.jobs.getJob({ key: { name: "crowded" } })).job).toMatchObject({ restarts: 0 });
  });
});

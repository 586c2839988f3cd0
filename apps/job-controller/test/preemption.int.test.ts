import type { V1Node, V1Pod } from "@kubernetes/client-node";
import type { NatsBus } from "@muster/bus";
import { startSimulatedNodes, type SimulatedNodes } from "@muster/devcluster";
import type { KubeCalls } from "@muster/kube";
import { annotations } from "@muster/proto";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { API_SERVERS } from "./api-servers.ts";
import { openContractLedger, type ContractLedger } from "./contract-ledger.ts";
import { openJobWorld, type Controller, type JobWorld, type TestJob } from "./job-world.ts";

const PATIENCE = { timeoutMs: 60_000 };
const GRACE_MS = 60_000;

/** Builds a job with workers that run until the test ends them. */
function job(name: string, replicas: number, ...flags: readonly string[]): TestJob {
  const container = { name: "main", image: "none", command: ["simulate", ...flags] };
  const template = { spec: { terminationGracePeriodSeconds: GRACE_MS / 1000, containers: [container] } };
  const worker = { replicas, pool: "workers", template };
  const metadata = { name };
  return { apiVersion: "muster.dev/v1", kind: "Job", metadata, spec: { replicaSpecs: { worker } } };
}

async function nodesOf(calls: KubeCalls): Promise<{ name: string; pool: string }[]> {
  const { items } = await calls.list<V1Node>({ apiVersion: "v1", plural: "nodes" });
  return items.map(({ metadata }) => ({ name: metadata?.name ?? "", pool: metadata?.labels?.["pool"] ?? "" }));
}

const announcedAt = ({ metadata }: V1Pod): string => metadata?.annotations?.[annotations.preemptedAt] ?? "";
const isLeaving = (pod: V1Pod): boolean => pod.metadata?.deletionTimestamp !== undefined && announcedAt(pod) !== "";

for (const server of API_SERVERS) {
  describe.skipIf(server.skip)(`jobs that are preempted, under ${server.title}`, { timeout: 240_000 }, () => {
    let world: JobWorld;
    let ledger: ContractLedger;
    let nodes: SimulatedNodes;
    let controller: Controller;

    beforeAll(async () => {
      const apiServer = await server.start();
      const openLedger = async (bus: NatsBus, calls: KubeCalls): Promise<AsyncDisposable> => {
        ledger = await openContractLedger(bus, () => nodesOf(calls));
        return ledger;
      };
      const startNodes = async (kubeconfig: string, pools: Readonly<Record<string, number>>) => {
        nodes = await startSimulatedNodes({ kubeconfig, pools, ...apiServer.nodeOptions });
        return nodes;
      };
      world = await openJobWorld(apiServer, { workers: 4 }, { openLedger, startNodes });
      controller = await world.startController();
    }, 240_000);

    afterAll(() => world[Symbol.asyncDispose]());

    const podOf = async (name: string): Promise<V1Pod | undefined> =>
      (await world.pods(name.replace(/-worker-.*/, ""))).find(({ metadata }) => metadata?.name === name);
    const untilPod = (what: string, name: string, holds: (pod: V1Pod) => boolean): Promise<V1Pod> =>
      until(
        `${name} ${what}`,
        async () => {
          const pod = await podOf(name);
          return pod !== undefined && holds(pod) && pod;
        },
        PATIENCE,
      );
    const untilRunning = (name: string): Promise<V1Pod> =>
      untilPod("runs", name, ({ status }) => status?.phase === "Running");
    const reservationOf = async (name: string) => {
      const { reservations } = await world.ledger.listReservations({ ownerKind: "job" });
      return reservations.find(({ owner }) => owner?.id.startsWith(`${name}-`));
    };
    const untilRequeued = (name: string) =>
      until(
        `${name} waits again`,
        async () => {
          const found = await reservationOf(name);
          return found?.preemptedFor === "r-0" && found.machines.length === 0 && found;
        },
        PATIENCE,
      );
    const conditionOf = async (name: string, type: string) =>
      (await world.get(name))?.status?.conditions?.find((each) => each.type === type);
    const untilCondition = (name: string, type: string, is: string, reason: string): Promise<unknown> =>
      until(
        `${type} of ${name} is ${is} because of ${reason}`,
        async () => {
          const found = await conditionOf(name, type);
          return found?.status === is && found.reason === reason;
        },
        PATIENCE,
      );
    const cancel = async (name: string): Promise<void> => {
      await world.jobs.cancelJob({ requestId: name, key: { name } });
      await world.untilNothingLeft(name);
    };

    it("end by SIGTERM, wait at their old position, and run again, whichever replica leads, and count nothing", async () => {
      await world.create(job("yields", 2, "--term-ms=2000"));
      const done = await untilRunning("yields-worker-0");
      await untilRunning("yields-worker-1");
      nodes.finish("default/yields-worker-0");
      await until(
        "one member is done",
        async () => (await world.get("yields"))?.status?.completions === "1/2",
        PATIENCE,
      );
      const before = await reservationOf("yields");

      ledger.preempt("yields", Date.now() + GRACE_MS);
      const leaving = await untilPod("begins to leave", "yields-worker-1", isLeaving);
      expect(new Date(announcedAt(leaving)).toISOString()).toBe(announcedAt(leaving));
      await controller.kill();
      controller = await world.startController();

      expect(await untilRequeued("yields")).toMatchObject({ id: before?.id, sequence: before?.sequence });
      await untilCondition("yields", "Preempted", "True", "RECLAIM");
      await untilCondition("yields", "MachinesReserved", "False", "POOL_AVAILABILITY");
      expect((await conditionOf("yields", "Preempted"))?.message).toContain("job/urgent-0a1b2c3d of the queue team-b");
      expect(await world.get("yields")).toMatchObject({ status: { state: "Queued", completions: "1/2", restarts: 0 } });
      expect((await world.pods("yields")).map(({ metadata }) => metadata?.uid)).toEqual([done.metadata?.uid]);

      await ledger.readmit();
      await untilRunning("yields-worker-1");
      await untilCondition("yields", "Preempted", "False", "JobRunning");
      expect(await reservationOf("yields")).toMatchObject({ id: before?.id, sequence: before?.sequence });
      nodes.finish("default/yields-worker-1");
      const { status } = await world.untilCondition("yields", "Succeeded");
      expect(status).toMatchObject({ completions: "2/2", restarts: 0 });
      await world.untilNothingLeft("yields");
    });

    it("are ended by force after the deadline", async () => {
      await world.create(job("stays", 1, "--ignore-term"));
      await untilRunning("stays-worker-0");
      ledger.preempt("stays", Date.now() + 2000);
      await untilRequeued("stays");
      expect(await podOf("stays-worker-0")).toBeUndefined();
      const texts = async (): Promise<string[]> => {
        const { events } = await world.jobs.listJobEvents({ key: { name: "stays" } });
        return events.map(({ reason, message }) => `${reason}: ${message}`);
      };
      for (const text of [/^Preempted: .*job\/urgent-0a1b2c3d/, /^ForcedDeletePod: .*within its grace/])
        await until(`an event matches ${text}`, async () => (await texts()).some((each) => text.test(each)), PATIENCE);
      await cancel("stays");
    });

    it("continue with the same pods if the preemption is withdrawn before they have begun to end", async () => {
      await world.create(job("spared", 1));
      const before = await untilRunning("spared-worker-0");
      await world.untilCondition("spared", "Running");
      ledger.preempt("spared", Date.now() + GRACE_MS);
      ledger.withdraw("spared");
      await until("the controller has asked the ledger", () => ledger.spared() > 0, PATIENCE);
      nodes.finish("default/spared-worker-0");
      const { status } = await world.untilCondition("spared", "Succeeded");
      expect(status?.conditions?.map(({ type }) => type)).not.toContain("Preempted");
      const after = await podOf("spared-worker-0");
      expect(after?.metadata?.uid).toBe(before.metadata?.uid);
      expect(announcedAt(after ?? {})).toBe("");
      await world.untilNothingLeft("spared");
    });

    it("release their machines when they are cancelled while they end", async () => {
      await world.create(job("cancelled", 1, "--term-ms=1000"));
      await untilRunning("cancelled-worker-0");
      ledger.preempt("cancelled", Date.now() + GRACE_MS);
      await untilPod("begins to leave", "cancelled-worker-0", isLeaving);
      await cancel("cancelled");
      expect(await reservationOf("cancelled")).toBeUndefined();
      await world.untilCondition("cancelled", "Failed");
    });
  });
}

import type { V1Node } from "@kubernetes/client-node";
import type { NatsBus } from "@muster/bus";
import { startSimulatedNodes } from "@muster/devcluster";
import { unlessMissing, type KubeCalls, type KubeObject } from "@muster/kube";
import { buckets, muster } from "@muster/proto";
import { openBucket, makeProtoCodec, type Bucket } from "@muster/store";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { QueueStatus } from "../src/domain/queues/describe-queue.ts";
import { QUEUE_FINALIZER } from "../src/domain/queues/queue-row.ts";
import { API_SERVERS } from "./api-servers.ts";
import { openContractLedger } from "./contract-ledger.ts";
import { installDefinition, openJobWorld, type JobWorld, type TestJob } from "./job-world.ts";

const { Queue } = muster.reservation.v1;
type QueueMessage = muster.reservation.v1.Queue;
type QueueObject = KubeObject & { readonly spec: object; readonly status?: QueueStatus };

const QUEUES = { apiVersion: "muster.dev/v1", plural: "queues" };
const NAMESPACES = { apiVersion: "v1", plural: "namespaces" };
const PATIENCE = { timeoutMs: 60_000 };
const serving = (team: string) => ({ namespaceSelector: { matchLabels: { team } } });

/** Builds a job with one worker that runs until it is cancelled. */
function job(
  name: string,
  {
    queue,
    cpu,
    priority,
    flags = [],
  }: { queue?: string; cpu?: string; priority?: number; flags?: readonly string[] } = {},
): TestJob {
  const resources = cpu === undefined ? {} : { resources: { requests: { cpu } } };
  const container = { name: "main", image: "none", command: ["simulate", ...flags], ...resources };
  const worker = { replicas: 1, pool: "workers", template: { spec: { containers: [container] } } };
  const metadata = { name, ...(queue !== undefined && { labels: { "muster.dev/queue": queue } }) };
  const runPolicy = priority === undefined ? {} : { runPolicy: { schedulingPolicy: { priority } } };
  return { apiVersion: "muster.dev/v1", kind: "Job", metadata, spec: { replicaSpecs: { worker }, ...runPolicy } };
}

async function nodesOf(calls: KubeCalls): Promise<{ name: string; pool: string }[]> {
  const { items } = await calls.list<V1Node>({ apiVersion: "v1", plural: "nodes" });
  return items.map(({ metadata }) => ({ name: metadata?.name ?? "", pool: metadata?.labels?.["pool"] ?? "" }));
}

for (const server of API_SERVERS) {
  describe.skipIf(server.skip)(`queues under ${server.title}`, { timeout: 240_000 }, () => {
    let world: JobWorld;
    let bucket: Bucket<QueueMessage, muster.reservation.v1.Queue.$Properties>;

    beforeAll(async () => {
      const apiServer = await server.start();
      const openLedger = async (bus: NatsBus, calls: KubeCalls): Promise<AsyncDisposable> => {
        bucket = await openBucket(bus.connection, { name: buckets.queues, codec: makeProtoCodec(Queue) });
        return openContractLedger(
          bus,
          () => nodesOf(calls),
          async () => (await bucket.list()).map(({ value }) => value),
        );
      };
      const startNodes = (kubeconfig: string, pools: Readonly<Record<string, number>>) =>
        startSimulatedNodes({ kubeconfig, pools, ...apiServer.nodeOptions });
      world = await openJobWorld(apiServer, { workers: 8 }, { openLedger, startNodes });
      await world.startController({ JOB_DISCOVER_MS: "300", JOB_EXPLAIN_EVERY_MS: "0" });
    }, 240_000);

    afterAll(() => world[Symbol.asyncDispose]());

    const create = (name: string, spec: object): Promise<QueueObject> =>
      world.calls.create<QueueObject>(QUEUES, { apiVersion: "muster.dev/v1", kind: "Queue", metadata: { name }, spec });
    const patch = (name: string, spec: object): Promise<QueueObject> =>
      world.calls.patch<QueueObject>(QUEUES, name, { kind: "merge", body: { spec } });
    const get = (name: string): Promise<QueueObject | undefined> =>
      unlessMissing(world.calls.get<QueueObject>(QUEUES, name));
    const entries = async (): Promise<Readonly<Record<string, QueueMessage>>> =>
      Object.fromEntries((await bucket.list()).map(({ key, value }) => [key, value]));
    const untilQueue = (what: string, name: string, holds: (queue: QueueObject) => boolean): Promise<QueueObject> =>
      until(
        what,
        async () => {
          const queue = await get(name);
          return queue !== undefined && holds(queue) && queue;
        },
        PATIENCE,
      );
    const isBlocked = ({ status }: QueueObject, reason: string): boolean =>
      status?.conditions.some((each) => each.type === "DeletionBlocked" && each.reason === reason) === true;
    const labelNamespace = (labels: Readonly<Record<string, string | null>>) =>
      world.calls.patch(NAMESPACES, "default", { kind: "merge", body: { metadata: { labels } } });
    const reservations = async () => {
      const { reservations: found } = await world.ledger.listReservations({ ownerKind: "job" });
      return found.map(({ owner, queue, priority, needs }) => {
        return {
          job: (owner?.id ?? "").replace(/-[^-]+$/, ""),
          queue,
          priority,
          isShared: needs[0]?.shared !== undefined,
        };
      });
    };
    const waitOf = async (name: string): Promise<string> => {
      const conditions = (await world.get(name))?.status?.conditions ?? [];
      const reserved = conditions.find(({ type, status }) => type === "MachinesReserved" && status === "False");
      return reserved === undefined ? "" : `${reserved.reason}: ${reserved.message}`;
    };
    const untilWait = (name: string, text: string): Promise<unknown> =>
      until(`${name} waits with ${text}`, async () => (await waitOf(name)).includes(text), PATIENCE);
    const cancel = (name: string) => world.jobs.cancelJob({ requestId: name, key: { name } });

    it("do not exist without their definition, and jobs run without them", async () => {
      await world.create(job("before"));
      await world.untilCondition("before", "Running");
      expect(await reservations()).toEqual([{ job: "before", queue: "", priority: 0, isShared: false }]);
      await world.create(job("early", { queue: "team-a" }));
      await untilWait("early", 'QUEUE_UNKNOWN: the label muster.dev/queue of the job names the queue "team-a"');
      expect(await bucket.list()).toEqual([]);
    });

    it("are mirrored for the ledger with a finalizer and get a status, after their installation", async () => {
      await installDefinition(world.calls, "muster.dev_queues.yaml");
      await create("company", { quotas: [{ pool: "workers", resources: [{ name: "cpu", nominal: 8 }] }] });
      await create("team-a", { parent: "company", weight: 0.5, maxPriority: 10, ...serving("a") });
      await create("team-b", { parent: "company", stopPolicy: "Hold", ...serving("b") });
      await until("all queues are mirrored", async () => Object.keys(await entries()).length === 3, PATIENCE);
      expect(await entries()).toMatchObject({
        company: { parent: "", quotas: [{ pool: "workers", resources: [{ resource: "cpu", nominal: 8000 }] }] },
        "team-a": { parent: "company", weightMilli: 500, maxPriority: 10, namespaces: { matchLabels: { team: "a" } } },
        "team-b": { stopPolicy: "Hold", problem: "" },
      });
      await untilQueue("an inner queue", "company", ({ status }) => status?.reason === "NOT_A_LEAF");
      await untilQueue("a held queue", "team-b", ({ status }) => status?.reason === "HELD");
      const queue = await untilQueue("a leaf", "team-a", ({ status }) => status?.reason === "ADMITTING");
      expect(queue.metadata?.finalizers).toEqual([QUEUE_FINALIZER]);
      expect(queue.status).toMatchObject({ observedGeneration: 1, pending: 0, admitted: 0, share: "0", pools: [] });
    });

    it("are found by label, by the default of the namespace, and by its selector", async () => {
      await untilWait("early", "which does not serve the namespace default");
      await labelNamespace({ team: "a" });
      await world.untilCondition("early", "Running");
      await world.create(job("selected", { priority: 50 }));
      await world.untilCondition("selected", "Running");
      await world.create(job("part", { queue: "team-a", cpu: "100m" }));
      await world.untilCondition("part", "Running");
      expect(await reservations()).toEqual(
        expect.arrayContaining([
          { job: "before", queue: "", priority: 0, isShared: false },
          { job: "early", queue: "team-a", priority: 0, isShared: false },
          { job: "selected", queue: "team-a", priority: 10, isShared: false },
          { job: "part", queue: "team-a", priority: 0, isShared: true },
        ]),
      );
      await until("the lowered priority has an event", async () => {
        const { events } = await world.jobs.listJobEvents({ key: { name: "selected" } });
        return events.some(({ reason, message }) => reason === "PriorityLowered" && message.includes("50"));
      });
      const used = [{ pool: "workers", resources: [{ name: "cpu", used: "2100m", borrowed: "0" }] }];
      const counted = await untilQueue("the work is counted", "team-a", ({ status }) => status?.admitted === 3);
      expect(counted.status?.pools).toEqual(used);

      await labelNamespace({ team: "b", "muster.dev/default-queue": "company" });
      await world.create(job("preset"));
      await untilWait("preset", 'names the queue "company", which has queues below it');
      await labelNamespace({ "muster.dev/default-queue": "team-b" });
      await untilQueue("the job waits in its queue", "team-b", ({ status }) => status?.pending === 1);
      await patch("team-b", { stopPolicy: "None" });
      await world.untilCondition("preset", "Running");
    });

    it("release the machines of a job that is not ready in time, and admit it again after a pause", async () => {
      await patch("team-a", { readyTimeout: "500ms" });
      await until(
        "the ledger follows the queue",
        async () => (await entries())["team-a"]?.readyTimeoutMs === 500,
        PATIENCE,
      );
      await labelNamespace({ team: "a" });
      await world.create(job("slow", { queue: "team-a", flags: ["--start-ms=600000"] }));
      const slow = await until(
        "it was released twice",
        async () => {
          const found = await world.get("slow");
          return (found?.status?.readyTimeouts ?? 0) >= 2 && found;
        },
        PATIENCE,
      );
      const requeued = slow.status?.conditions?.find(({ type }) => type === "Requeued");
      expect(requeued).toMatchObject({ status: "True", reason: "ReadyTimeout" });
      expect(requeued?.message).toContain(
        "0 of 1 members were ready within the readyTimeout 500ms of the queue team-a",
      );
      expect(slow.status).toMatchObject({ restarts: 0 });
      await until("the job has an event", async () => {
        const { events } = await world.jobs.listJobEvents({ key: { name: "slow" } });
        return events.some(({ reason, type }) => reason === "ReadyTimeout" && type === "Warning");
      });
      await patch("team-a", { readyTimeout: null });
      await cancel("slow");
      await until(
        "it holds nothing",
        async () => (await reservations()).every(({ job: of }) => of !== "slow"),
        PATIENCE,
      );
      await labelNamespace({ team: "b" });
    });

    it("admit nothing if they are unreadable, and the bucket is repaired", async () => {
      const [{ revision } = { revision: 0 }] = await bucket.list("team-a");
      await bucket.update("team-a", { name: "team-a", parent: "other" }, revision);
      const half = [{ pool: "workers", resources: [{ name: "example.com/gpu", nominal: "0.5" }] }];
      await create("half", { quotas: half });
      const wrong = 'spec.quotas[0].resources[0].nominal: must be a whole number, such as 8 or 2Gi, not "0.5"';
      const queue = await untilQueue("the fault is named", "half", ({ status }) => status?.reason === "INVALID_SPEC");
      expect(queue.status?.message).toBe(wrong);
      const problems = async (): Promise<string> => (await entries())["half"]?.problem ?? "";
      await until("the ledger can read the fault", async () => (await problems()) === wrong, PATIENCE);
      await until(
        "the other entry is repaired",
        async () => (await entries())["team-a"]?.parent === "company",
        PATIENCE,
      );
    });

    it("stay until they have neither work nor queues below them, and admit nothing meanwhile", async () => {
      for (const name of ["company", "team-a", "half"]) await world.calls.delete(QUEUES, name);
      await until("an empty queue is gone", async () => (await get("half")) === undefined, PATIENCE);
      await untilQueue("queues below are named", "company", (queue) => isBlocked(queue, "HAS_QUEUES"));
      await untilQueue("work is named", "team-a", (queue) => isBlocked(queue, "HAS_WORK"));
      const isStopped = async (): Promise<boolean> => (await entries())["team-a"]?.problem === "it is being deleted";
      await until("the queue admits nothing", isStopped, PATIENCE);
      await labelNamespace({ team: "a", "muster.dev/default-queue": null });
      await world.create(job("late", { queue: "team-a" }));
      await untilWait("late", "is being deleted");
      for (const name of ["early", "selected", "part"]) await cancel(name);
      await until("the queue is deleted after its work", async () => (await get("team-a")) === undefined, PATIENCE);
      await untilWait("late", "does not exist");
      await cancel("preset");
      await world.calls.delete(QUEUES, "team-b");
      await until("the root is gone", async () => (await get("company")) === undefined, PATIENCE);
      await until("the bucket is empty", async () => (await bucket.list()).length === 0, PATIENCE);
      await cancel("late");
      await cancel("before");
      await world.create(job("after"));
      await world.untilCondition("after", "Running");
      await cancel("after");
      await world.untilNothingLeft("after");
    });
  });
}

import { makeKubeCalls, toKubeFault, loadKube } from "@muster/kube";
import { buckets, muster } from "@muster/proto";
import { openBucket, makeProtoCodec } from "@muster/store";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { API_SERVERS } from "./api-servers.ts";
import { openScriptedCluster } from "./scripted-cluster.ts";
import {
  listEvents,
  waitUntilFinished,
  RAN,
  waitForEvent,
  makeScripted,
  openSessionWorld,
  submitSession,
  type SessionWorld,
} from "./world.ts";

const POOLS = { drivers: 3 };
/** Millicores and bytes of one machine. */
const MACHINE = { cpu: 4000, memory: 8 * 2 ** 30 };
const ANY_OBJECT = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
const DEFINITIONS = { apiVersion: "apiextensions.k8s.io/v1", plural: "customresourcedefinitions" };
const QUEUES = { apiVersion: "muster.dev/v1", plural: "queues" };
const QUEUE_DEFINITION = {
  metadata: { name: "queues.muster.dev" },
  spec: {
    group: "muster.dev",
    scope: "Cluster",
    names: { kind: "Queue", listKind: "QueueList", plural: "queues", singular: "queue" },
    versions: [{ name: "v1", served: true, storage: true, schema: { openAPIV3Schema: ANY_OBJECT } }],
  },
};
const { Queue } = muster.reservation.v1;

/** A queue that owns one machine, for namespaces of this team. */
function queueOf(name: string, team: string): muster.reservation.v1.Queue {
  const limits = { borrowingLimit: undefined, lendingLimit: undefined };
  const resources = Object.entries(MACHINE).map(([resource, nominal]) => ({ resource, nominal, ...limits }));
  const namespaces = { matchLabels: { team }, matchExpressions: [] };
  const usual = { weightMilli: 1000, strategy: "BestEffortFIFO", stopPolicy: "None" };
  return Queue.create({ name, ...usual, namespaces, quotas: [{ pool: "drivers", resources }] });
}

/** The API server serves a new definition some time after accepting it. */
function retryUnlessServed(error: unknown): false {
  if (toKubeFault(error)?.code !== "not_found") throw error;
  return false;
}

async function setSize({ cluster: { api } }: SessionWorld, name: string): Promise<void> {
  const node = await api.readNode({ name });
  const allocatable = { cpu: "4", memory: "8Gi", pods: "10" };
  await api.replaceNodeStatus({
    name,
    body: { ...node, status: { ...node.status, allocatable, capacity: allocatable } },
  });
}

for (const server of API_SERVERS) {
  describe.skipIf(server.skip)(`sessions with queues, under ${server.title}`, { timeout: 120_000 }, () => {
    let world: SessionWorld;
    const driver = (): ReturnType<typeof makeScripted>[] => [makeScripted("driver", "driver", "serve")];

    beforeAll(async () => {
      world = await openSessionWorld(await openScriptedCluster(await server.start(), POOLS), POOLS);
      for (let index = 0; index < POOLS.drivers; index += 1) await setSize(world, `drivers-${index}`);
      await until("the ledger knows the sizes", async () => {
        const { pools } = await world.ledger.listPools({});
        return pools.find(({ name }) => name === "drivers")?.allocatable["cpu"] === POOLS.drivers * MACHINE.cpu;
      });
      await world.startController({ SESSION_EXECUTORS: "0" });
    }, 120_000);
    afterAll(() => world[Symbol.asyncDispose]());

    const put = async (queue: muster.reservation.v1.Queue): Promise<void> => {
      const bucket = await openBucket(world.bus.connection, { name: buckets.queues, codec: makeProtoCodec(Queue) });
      await bucket.create(queue.name, queue);
    };
    const label = async (labels: Readonly<Record<string, string>>): Promise<void> => {
      const body = await world.cluster.api.readNamespace({ name: "default" });
      await world.cluster.api.replaceNamespace({
        name: "default",
        body: { ...body, metadata: { ...body.metadata, labels } },
      });
    };
    const reservationOf = async (name: string) =>
      (await world.ledger.getReservation({ owner: { kind: "session", id: name } })).reservation;
    const cancel = async (name: string): Promise<void> => {
      await world.sessions.cancelSession({ requestId: `cancel-${name}`, name });
      await waitUntilFinished(world, name);
    };
    const untilWaits = async (name: string, code: string, text: RegExp): Promise<void> => {
      await until(`${name} waits for ${code}`, async () => {
        const { session } = await world.sessions.getSession({ name });
        expect(session?.waitingBecause).toMatch(text);
        return true;
      });
      const { explanation } = await world.sessions.explainSession({ name });
      expect(explanation?.reasons.map((reason) => reason.code)).toEqual([code]);
    };

    it("need no queue while no Queue exists", async () => {
      await submitSession(world, "free", driver());
      await waitForEvent(world, "free", "RUN");
      expect(await reservationOf("free")).toMatchObject({ queue: "", notPreemptible: false });
      await cancel("free");
    });

    it("wait for a Queue that exists and is not in the bucket yet, and need none again once it is deleted", async () => {
      await using calls = makeKubeCalls(loadKube(world.cluster.kubeconfig), { maxInFlight: 4, timeoutMs: 30_000 });
      await calls.create(DEFINITIONS, QUEUE_DEFINITION);
      const spec = { namespaceSelector: { matchLabels: { team: "a" } } };
      const queue = { apiVersion: QUEUES.apiVersion, kind: "Queue", metadata: { name: "team-a" }, spec };
      const created = (): Promise<boolean> => calls.create(QUEUES, queue).then(() => true, retryUnlessServed);
      await until("the definition is served", created, { timeoutMs: 30_000 });
      await submitSession(world, "early", driver());
      await untilWaits("early", "QUEUE_UNKNOWN", /^Queues exist, and the job-controller has not published them/);
      await expect(reservationOf("early")).rejects.toMatchObject({ fault: { code: "not_found" } });
      await calls.delete(QUEUES, "team-a");
      await waitForEvent(world, "early", "RUN");
      await cancel("early");
    });

    it("wait for a queue once one exists, use its quota, and are not preemptible", async () => {
      await put(queueOf("team-a", "a"));
      await put(queueOf("team-b", "b"));
      await submitSession(world, "first", driver());
      await untilWaits("first", "QUEUE_UNKNOWN", /^no queue serves the namespace default: select/);
      await label({ team: "a" });
      await waitForEvent(world, "first", "RUN");
      expect(await reservationOf("first")).toMatchObject({ queue: "team-a", notPreemptible: true });

      await submitSession(world, "second", driver(), { queue: "team-a" });
      await untilWaits(
        "second",
        "WAITING_FOR_QUOTA",
        /of cpu in pool drivers are needed, and the quota of the queue team-a/,
      );
      await submitSession(world, "foreign", driver(), { queue: "team-b" });
      await untilWaits(
        "foreign",
        "QUEUE_UNKNOWN",
        /^spec.queue of the session names the queue "team-b", which does not serve the namespace default/,
      );
      await submitSession(world, "large", [...driver(), { ...makeScripted("server", "server"), pool: "drivers" }]);
      await untilWaits("large", "QUOTA_EXCEEDED", /team-a/);

      await cancel("first");
      await waitForEvent(world, "second", "RUN");
      await label({ team: "b" });
      await waitForEvent(world, "foreign", "RUN");
      expect(await reservationOf("second")).toMatchObject({ queue: "team-a" });
      for (const name of ["second", "foreign"]) await cancel(name);
      expect(listEvents((await world.sessions.getSession({ name: "second" })).session ?? {})).toEqual([
        ...RAN,
        "CANCELLED",
      ]);
    });

    it("have at most the maxPriority of their queue, and a warning if it lowers their priority", async () => {
      await put(Object.assign(queueOf("team-c", "c"), { maxPriority: 10 }));
      await label({ team: "c" });
      await submitSession(world, "urgent", driver(), { priority: 50 });
      await waitForEvent(world, "urgent", "RUN");
      expect(await reservationOf("urgent")).toMatchObject({ queue: "team-c", priority: 10 });
      const { session } = await world.sessions.getSession({ name: "urgent" });
      const message = "the priority 50 is lowered to 10, the maxPriority of the queue team-c";
      expect(session?.warnings).toMatchObject([{ code: "PRIORITY_LOWERED", message }]);
      await cancel("urgent");
    });
  });
}

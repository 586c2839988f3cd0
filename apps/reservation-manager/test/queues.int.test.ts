import type { NatsBus } from "@muster/bus";
import { buckets, muster } from "@muster/proto";
import { openBucket } from "@muster/store";
import { startTestNats, until } from "@muster/testkit";
import { expect, it } from "vitest";
import { queueCodec } from "../src/adapters/queue-messages.ts";
import { connectUser, openNodeWriter, retryUntilAnswered, makeReservations, startManager } from "./managers.ts";

const { RESERVATION_STATE_GRANTED: GRANTED, RESERVATION_STATE_WAITING: WAITING } =
  muster.reservation.v1.ReservationState;

const owner = (id: string) => ({ kind: "job", id });

/** Writes queues as the job-controller does, each with an amount of cpu in pool a. */
async function queueWriter(bus: NatsBus) {
  const bucket = await openBucket(bus.connection, { name: buckets.queues, codec: queueCodec });
  return {
    put: async (name: string, parent: string, cpu?: number): Promise<void> => {
      const quotas =
        cpu === undefined
          ? []
          : [
              {
                pool: "a",
                resources: [{ resource: "cpu", nominal: cpu, borrowingLimit: undefined, lendingLimit: undefined }],
              },
            ];
      const queue = muster.reservation.v1.Queue.create({ name, parent, weightMilli: 1000, quotas });
      const entry = await bucket.get(name);
      await (entry === undefined ? bucket.create(name, queue) : bucket.update(name, queue, entry.revision));
    },
    remove: async (name: string): Promise<void> => {
      const entry = await bucket.get(name);
      if (entry !== undefined) await bucket.delete(name, entry.revision);
    },
  };
}

it("follows queues, keeps work waiting for their quota, lists their use, and keeps all of it when another replica leads", async () => {
  await using server = await startTestNats();
  await using bus = await connectUser(server);
  const nodes = await openNodeWriter(bus);
  await nodes.put("n0", "a", { allocatable: { cpu: 64_000, pods: 100 } });
  const queues = await queueWriter(bus);
  await queues.put("teams", "");
  await queues.put("ai", "teams", 4000);
  await queues.put("web", "teams", 4000);
  await using first = startManager(server);
  const reservations = makeReservations(bus);
  const reserve = (id: string, queue: string, cpu: number) => {
    const needs = [{ component: "c", pool: "a", shared: { requests: { cpu } } }];
    return retryUntilAnswered(() => reservations.reserve({ owner: owner(id), needs, wait: true, queue }));
  };
  const stateOf = async (id: string) =>
    (await retryUntilAnswered(() => reservations.getReservation({ owner: owner(id) }))).reservation?.state;

  expect((await reserve("x", "ai", 6000)).reservation).toMatchObject({
    state: GRANTED,
    queue: "ai",
    use: [{ pool: "a", amounts: { cpu: 6000, pods: 1 } }],
  });
  expect((await reserve("y", "ai", 2500)).reservation).toMatchObject({
    state: WAITING,
    because: {
      code: "WAITING_FOR_QUOTA",
      queue: "ai",
      quota: { pool: "a", resource: "cpu", requested: 2500, available: 2000 },
    },
  });
  await expect(reserve("z", "ai", 8001)).rejects.toMatchObject({
    fault: { code: "quota_exceeded", queue: "ai", resource: "cpu", requested: 8001, most: 8000 },
  });
  await expect(reserve("z", "nosuch", 1)).rejects.toMatchObject({
    fault: { code: "queue_unknown", queue: "nosuch", known: ["ai", "web"] },
  });
  expect((await retryUntilAnswered(() => reservations.listQueues({ limit: 2 }))).queues).toMatchObject([
    {
      queue: { name: "ai", parent: "teams" },
      used: [{ pool: "a", amounts: { cpu: 6000 } }],
      borrowed: [{ pool: "a", amounts: { cpu: 2000 } }],
      quota: [{ pool: "a", amounts: { cpu: 4000 } }],
      ...{ pending: 1, admitted: 1, shareMillionths: 250_000, problem: "" },
    },
    { queue: { name: "teams" }, problem: "NOT_A_LEAF" },
  ]);
  const page = await retryUntilAnswered(() => reservations.listQueues({ limit: 2, continue: "teams" }));
  expect(page).toMatchObject({ queues: [{ queue: { name: "web" } }], continue: "" });

  expect(await retryUntilAnswered(() => reservations.listUsage({ limit: 2 }))).toMatchObject({
    usage: [
      {
        ...{ queue: "ai", parent: "teams", pending: 1, admitted: 1, shareMillionths: 250_000 },
        resources: [{ pool: "a", resource: "cpu", nominal: 4000, quota: 4000, used: 6000, borrowed: 2000 }],
      },
      {
        ...{ queue: "teams", parent: "", pending: 0, admitted: 0, shareMillionths: 0 },
        resources: [{ pool: "a", resource: "cpu", nominal: undefined, quota: 8000, used: 6000, borrowed: 0 }],
      },
    ],
    continue: "teams",
  });
  const ofWeb = { queue: "web", resources: [{ pool: "a", resource: "cpu", nominal: 4000, used: 0 }] };
  for (const request of [{ limit: 2, continue: "teams" }, { queue: "web" }])
    expect(await retryUntilAnswered(() => reservations.listUsage(request))).toMatchObject({
      usage: [ofWeb],
      continue: "",
    });

  const address = await until("the address was logged", () => first.http);
  const response = await fetch(new URL("/metrics", address.includes("://") ? address : `http://${address}`));
  const measured = await response.text();
  expect(measured).toMatch(/^muster_queue_used\{.*muster_queue="ai",muster_pool="a",muster_resource="cpu".*\} 6$/m);
  expect(measured).toMatch(/^muster_queue_quota\{.*muster_queue="ai",muster_pool="a",muster_resource="cpu".*\} 4$/m);
  expect(measured).toMatch(/^muster_queue_granted\{.*muster_queue="ai".*\} 1$/m);
  expect(measured).toMatch(/^muster_queue_waiting\{.*muster_queue="ai".*\} 1$/m);

  await first.end("SIGKILL");
  await using second = startManager(server);
  expect(await stateOf("x")).toBe(GRANTED);
  await queues.put("web", "teams", 5000);
  await until("the larger quota lets the request go", async () => (await stateOf("y")) === GRANTED);
  await queues.remove("ai");
  await until("the queue is gone", async () => {
    const { queues: listed } = await retryUntilAnswered(() => reservations.listQueues({}));
    return listed.every(({ queue }) => queue?.name !== "ai");
  });
  expect(await stateOf("x")).toBe(GRANTED);
  await queues.put("ai", "teams", 4000);
  await until("what its work uses counts again", async () => {
    const { queues: listed } = await retryUntilAnswered(() => reservations.listQueues({}));
    return listed.find(({ queue }) => queue?.name === "ai")?.used[0]?.amounts["cpu"] === 8500;
  });
  expect([...first.errors, ...second.errors]).toEqual([]);
});

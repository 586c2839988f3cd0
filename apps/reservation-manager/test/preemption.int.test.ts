import { consumeEvents } from "@muster/bus";
import { buckets, muster, streams, subjects } from "@muster/proto";
import { openBucket } from "@muster/store";
import { startTestNats, until } from "@muster/testkit";
import { expect, it } from "vitest";
import { queueCodec } from "../src/adapters/queue-messages.ts";
import { connectUser, makeReservations, openNodeWriter, retryUntilAnswered, startManager } from "./managers.ts";

const { RESERVATION_STATE_GRANTED: GRANTED, RESERVATION_STATE_WAITING: WAITING } =
  muster.reservation.v1.ReservationState;
const { Queue, ReservationPreempted } = muster.reservation.v1;

it("publishes victim, beneficiary and deadline to the owner, and holds the machine for the beneficiary until it is requeued", async () => {
  await using server = await startTestNats();
  await using bus = await connectUser(server);
  const nodes = await openNodeWriter(bus);
  await nodes.put("n0", "a", { allocatable: { cpu: 4000, pods: 100 } });
  const queues = await openBucket(bus.connection, { name: buckets.queues, codec: queueCodec });
  const preemption = { reclaim: "", fairSharing: "", withinQueue: "LowerPriority", whileBorrowing: undefined };
  await queues.create("team", Queue.create({ name: "team", weightMilli: 1000, preemption }));
  await using manager = startManager(server);
  const reservations = makeReservations(bus);
  const owner = (id: string) => ({ kind: "job", id });
  const reserve = async (id: string, priority: number, queue = "team") => {
    const needs = [{ component: "c", pool: "a", shared: { requests: { cpu: 4000 } } }];
    const request = { owner: owner(id), needs, wait: true, queue, priority, graceMs: 5000 };
    return (await retryUntilAnswered(() => reservations.reserve(request))).reservation;
  };
  const low = await reserve("low", 0);
  expect(low?.state).toBe(GRANTED);
  const published: muster.reservation.v1.ReservationPreempted[] = [];
  const events = { stream: streams.events.name, durable: "preempted", maxInFlight: 10, ackWaitMs: 5000, area: "test" };
  await using _followed = await consumeEvents(
    bus,
    { ...events, subject: subjects.anyReservationPreempted },
    ReservationPreempted,
    (event) => {
      published.push(event);
      return Promise.resolve();
    },
  );

  const high = await reserve("high", 1);
  expect(high?.state).toBe(WAITING);
  const { reservation: asked } = await until("the owner is asked", () => published[0]);
  expect(asked).toMatchObject({
    ...{ id: low?.id, owner: owner("low"), state: GRANTED },
    preemption: { beneficiary: owner("high"), beneficiaryId: high?.id, queue: "team", reason: "WITHIN_QUEUE" },
  });
  expect((asked?.preemption?.deadlineMs ?? 0) - (asked?.preemption?.atMs ?? 0)).toBe(5000);
  expect((await reserve("other", 9, ""))?.state).toBe(WAITING);

  const named = { owner: owner("low"), reservationId: low?.id ?? "" };
  expect(await retryUntilAnswered(() => reservations.acceptPreemption(named))).toMatchObject({ accepted: true });
  const { reservation: requeued } = await retryUntilAnswered(() => reservations.requeue(named));
  expect(requeued).toMatchObject({ state: WAITING, sequence: low?.sequence, createdAtMs: low?.createdAtMs });
  const stateOf = async (id: string) => (await reservations.getReservation({ owner: owner(id) })).reservation?.state;
  expect([await stateOf("high"), await stateOf("other")]).toEqual([GRANTED, WAITING]);
  expect(manager.errors).toEqual([]);
});
